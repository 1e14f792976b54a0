"""Whatever a backend may say, for hypothesis."""

from hypothesis import strategies as st

from antiphon.errors import BackendTimeout
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Compacted,
    Failed,
    Finished,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnTool

USAGE = Usage(3, InputTokensDetails(1), 5, OutputTokensDetails(2), 8)
TOOLS = {
    "patch": TurnTool(name="patch", origin="patch", kind="custom"),
    "time__now": TurnTool(name="time__now", origin="now", namespace="time"),
}

texts = st.text(alphabet='ab {}"\n\u2028é', max_size=6)
index = st.integers(0, 2)
model_chunks = st.one_of(
    st.builds(TextDelta, texts),
    st.builds(RefusalDelta, texts),
    st.builds(ReasoningDelta, texts),
    st.builds(ReasoningSummaryDelta, texts, st.integers(0, 1)),
    st.builds(CallStarted, index, st.sampled_from(["", "call_a", "call_b"]), st.sampled_from(["f", *TOOLS])),
    st.builds(CallDelta, index, st.sampled_from(['{"a":', "1}", "{}", " ", "", '{"input":"x"}'])),
    st.builds(CallFinished, index),
    st.builds(AnnotationAdded, st.just({"type": "url_citation", "url": "u"})),
    st.just(UsageReported(USAGE)),
)
compactions = st.builds(Compacted, texts, st.sampled_from([None, USAGE]), st.booleans())
endings = st.one_of(
    st.sampled_from(
        [Finished("stop"), Finished("length"), Finished("tool_calls"), Finished("content_filter")]
    ),
    st.just(Failed(BackendTimeout())),
    st.none(),
)
