"""Hypothesis strategies for the chunks that a backend may yield."""

from typing import Any

from hypothesis import strategies as st

from antiphon.errors import BackendTimeout
from antiphon.protocol.parse_create import create_from
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
    ToolsFound,
    UsageReported,
)
from antiphon.turn.context import build_turn

USAGE = Usage(3, InputTokensDetails(1), 5, OutputTokensDetails(2), 8)
DECLARED: list[dict[str, Any]] = [
    {"type": "custom", "name": "patch"},
    {"type": "namespace", "name": "time", "tools": [{"type": "function", "name": "now"}]},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "apply_patch"},
    {"type": "local_shell"},
    {"type": "computer"},
    {"type": "computer_use_preview", "environment": "linux", "display_width": 9, "display_height": 9},
    {"type": "tool_search", "execution": "client"},
]
REQUEST = create_from(model="m", input="hi", tools=DECLARED)
TOOLS = {tool.name: tool for tool in build_turn(REQUEST, model="m").tools}
"""A tool of every kind, by its name in the turn."""

PIECES = [
    '{"a":', "1}", "{}", " ", "", '{"input":"x"}', '{"input":"\\ud83d', '\\ude00é"', "}", "raw", "[1]",
    '{"commands":["ls","', 'cat"]}', '{"command":["ls"],"env":{"A":"b"}}', '{"type":"update_file","path":"a",',
    '"diff":"@@"}', '{"type":"delete_file","path":"a"}', '{"actions":[{"type":"wait"}]}', '{"query":"x"}',
]  # fmt: skip

texts = st.text(alphabet='ab {}"\n\u2028é', max_size=6)
index = st.integers(0, 2)
model_chunks = st.one_of(
    st.builds(TextDelta, texts),
    st.builds(RefusalDelta, texts),
    st.builds(ReasoningDelta, texts),
    st.builds(ReasoningSummaryDelta, texts, st.integers(0, 1)),
    st.builds(CallStarted, index, st.sampled_from(["", "call_a", "call_b"]), st.sampled_from(["f", *TOOLS])),
    st.builds(CallDelta, index, st.sampled_from(PIECES)),
    st.builds(CallFinished, index),
    st.builds(AnnotationAdded, st.just({"type": "url_citation", "url": "u"})),
    st.just(UsageReported(USAGE)),
)
searches = st.builds(ToolsFound, st.just({"query": "x"}), st.sampled_from([(), REQUEST.tools[:2]]))
compactions = st.builds(Compacted, texts, st.sampled_from([None, USAGE]), st.booleans())
endings = st.one_of(
    st.sampled_from(
        [Finished("stop"), Finished("length"), Finished("tool_calls"), Finished("content_filter")]
    ),
    st.just(Failed(BackendTimeout())),
    st.none(),
)
