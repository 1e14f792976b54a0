"""Secrets of the process are removed from what a model says, however it is split."""

import json
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BackendRefused
from antiphon.known_secrets import (
    HIDDEN,
    MIN_SECRET_CHARACTERS,
    KnownSecrets,
    header_secrets,
    url_password,
    without_url_secrets,
)
from antiphon.protocol.content import Logprob, TopLogprob
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import (
    CodeInterpreterCallCodeDelta,
    CodeInterpreterCallCodeDone,
    McpCallArgumentsDelta,
    WebSearchCallSearching,
)
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.protocol.tools import FunctionTool, HostedTool
from antiphon.service.responses.secret_filter import MAX_HELD_CHUNKS, MAX_SERIES, SecretFilter
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Compacted,
    DowngradesAdded,
    Failed,
    Finished,
    Heartbeat,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    StopSequenceFound,
    TextDelta,
    ToolsFound,
    TurnStarted,
    UsageReported,
    UsageSpent,
)
from antiphon.turn.provider_state import ProviderState
from tests.turn.chunk_strategies import USAGE

SECRET = "sk-canary-0123456789"
OTHER = "sk-canary-another-one"
STOP = Finished("stop")


def known(*secrets: str) -> KnownSecrets:
    found = KnownSecrets()
    found.add(*(secrets or (SECRET, OTHER)))
    return found


def texts(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def filtered(*batches: Sequence[Chunk], secrets: KnownSecrets | None = None) -> list[Chunk]:
    under_test = SecretFilter(secrets or known())
    return [chunk for batch in batches for chunk in under_test.feed(batch)]


@given(
    st.lists(st.sampled_from([SECRET, OTHER, "sk-", "sk-canary-", "s", "words ", "0123456789"]), max_size=6),
    st.lists(st.integers(0, 120), max_size=12),
    st.booleans(),
)
def test_a_secret_is_removed_however_the_text_is_split(
    pieces: list[str], cuts: list[int], in_one_batch: bool
) -> None:
    text = "".join(pieces)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    deltas: list[Chunk] = [TextDelta(text[a:b]) for a, b in pairwise(places)]
    batches = [[*deltas, STOP]] if in_one_batch else [*([delta] for delta in deltas), [STOP]]
    chunks = filtered(*batches)
    assert chunks[-1] == STOP
    shown = texts(chunks)
    assert SECRET not in shown
    assert OTHER not in shown
    if SECRET not in text and OTHER not in text:
        assert shown == text
    if text in (SECRET, OTHER):
        assert len(shown.replace(HIDDEN, "")) < 4


def test_ordinary_text_passes_as_it_is() -> None:
    batches: list[list[Chunk]] = [[TextDelta("task")], [TextDelta(" of risk-")], [TextDelta("taking"), STOP]]
    under_test = SecretFilter(known())
    assert [under_test.feed(batch) for batch in batches] == batches


def test_a_delta_is_held_back_only_while_it_may_be_the_beginning_of_a_secret() -> None:
    under_test = SecretFilter(known())
    assert under_test.feed([TextDelta("is sk-c")]) == [TextDelta("is ")]
    assert under_test.feed([TextDelta("old")]) == [TextDelta("sk-c"), TextDelta("old")]
    assert under_test.feed([TextDelta("sk-can")]) == []
    assert under_test.feed([STOP]) == [TextDelta("sk-can"), STOP]


def call_delta(text: str) -> Chunk:
    return CallDelta(1, text)


def code_delta(text: str) -> Chunk:
    return HostedItemStep(1, CodeInterpreterCallCodeDelta, (text,))


def mcp_delta(text: str) -> Chunk:
    return HostedItemStep(1, McpCallArgumentsDelta, (text,))


DELTAS: list[Callable[[str], Chunk]] = [
    TextDelta,
    RefusalDelta,
    ReasoningDelta,
    ReasoningSummaryDelta,
    call_delta,
    code_delta,
    mcp_delta,
]


@pytest.mark.parametrize("delta", DELTAS)
def test_every_kind_of_text_is_filtered(delta: Callable[[str], Chunk]) -> None:
    chunks = filtered([delta("a "), delta(SECRET[:7])], [delta(SECRET[7:])], [delta(" b"), STOP])
    assert chunks == [delta("a "), delta(HIDDEN), delta(" b"), STOP]


INTERRUPTIONS: list[Chunk] = [
    TextDelta("{}"),
    ReasoningDelta("{}"),
    CallDelta(0, "{}"),
    CallStarted(0, "c", "f"),
    CallFinished(0),
    AnnotationAdded({"type": "url_citation", "url": "u"}),
    ProviderStateAdded(ProviderState("p", {"signature": "s"})),
    ItemBegun(),
    HostedItemDone(WebSearchCall(id="ws_1", status="completed"), index=0),
    HostedItemStep(0, CodeInterpreterCallCodeDelta, ("{}",)),
    DowngradesAdded((Downgrade("emulated", "text"),)),
    UsageReported(USAGE),
    TurnStarted(),
]


@pytest.mark.parametrize("between", INTERRUPTIONS, ids=lambda chunk: type(chunk).__name__)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_secret_is_removed_if_another_chunk_interrupts_it(
    delta: Callable[[str], Chunk], between: Chunk
) -> None:
    before, after = delta(f"a {SECRET[:9]}"), delta(f"{SECRET[9:]} b")
    if type(before) is type(between) and not isinstance(between, CallDelta | HostedItemStep):
        return  # the same series
    chunks = filtered([before], [between], [after, STOP])
    assert chunks == [delta("a "), delta(HIDDEN), between, delta(" b"), STOP]


def test_what_follows_a_held_delta_waits_in_order() -> None:
    under_test = SecretFilter(known())
    assert under_test.feed([CallDelta(0, SECRET[:9]), CallDelta(1, SECRET[:4]), CallDelta(2, "{}")]) == []
    assert under_test.feed([CallDelta(1, "x")]) == []
    assert under_test.holds
    chunks: list[Chunk] = [CallDelta(0, SECRET[:9]), CallDelta(1, SECRET[:4]), CallDelta(2, "{}")]
    assert under_test.feed([CallDelta(0, "x")]) == [*chunks, CallDelta(1, "x"), CallDelta(0, "x")]
    assert not under_test.holds


def test_the_end_of_a_call_ends_the_wait_for_its_arguments() -> None:
    under_test = SecretFilter(known())
    for end in (CallFinished(0), CallStarted(0, "c", "f")):
        assert under_test.feed([CallDelta(0, "sk-c")]) == []
        assert under_test.feed([end, CallDelta(0, SECRET[4:])]) == [
            CallDelta(0, "sk-c"),
            end,
            CallDelta(0, SECRET[4:]),
        ]


def test_the_end_of_a_hosted_tool_ends_the_wait_for_its_code() -> None:
    under_test = SecretFilter(known())
    done = HostedItemDone(WebSearchCall(id="ws_1", status="completed"), index=1)
    assert under_test.feed([code_delta("sk-c")]) == []
    assert under_test.feed([done]) == [code_delta("sk-c"), done]


@pytest.mark.parametrize("delta", DELTAS)
def test_a_long_interruption_ends_the_wait_but_the_secret_is_still_recognised(
    delta: Callable[[str], Chunk],
) -> None:
    mark = AnnotationAdded({"type": "url_citation"})
    interruption: list[Chunk] = [mark] * MAX_HELD_CHUNKS
    under_test = SecretFilter(known())
    assert under_test.feed([delta(SECRET[:8])]) == []
    assert under_test.feed(interruption) == [delta(SECRET[:8]), *interruption]
    assert under_test.feed([delta(SECRET[8:14])]) == []
    assert under_test.feed(interruption) == [delta(HIDDEN), *interruption], "that was more than half of it"
    assert under_test.feed([delta(f"{SECRET[14:]} b")]) == [delta(f"{HIDDEN} b")]
    assert under_test.feed([delta("s"), delta("k-canary-x"), STOP])[-2:] == [delta("k-canary-x"), STOP]


def test_at_most_half_of_a_secret_that_is_broken_off_is_shown() -> None:
    long = "sk-" + "x" * 61
    secrets = known(SECRET, long)
    for shown in range(4, len(SECRET)):
        expected = SECRET[:shown] if shown <= len(SECRET) // 2 else HIDDEN
        assert filtered([TextDelta(SECRET[:shown]), STOP], secrets=secrets) == [TextDelta(expected), STOP]
    assert filtered([TextDelta(long[:16]), STOP], secrets=secrets) == [TextDelta(long[:16]), STOP]
    assert filtered([TextDelta(long[:17]), STOP], secrets=secrets) == [TextDelta(HIDDEN), STOP]


def test_a_longer_secret_is_not_cut_short_by_one_that_begins_it() -> None:
    longer = f"{SECRET}-and-more"
    secrets = known(SECRET, longer)
    under_test = SecretFilter(secrets)
    assert under_test.feed([TextDelta(SECRET)]) == []
    assert under_test.feed([TextDelta("-and-more")]) == [TextDelta(HIDDEN)]
    assert filtered([TextDelta(SECRET), TextDelta("!")], secrets=secrets) == [
        TextDelta(HIDDEN),
        TextDelta("!"),
    ]
    assert filtered([TextDelta(f"{SECRET}-and-mo"), STOP], secrets=secrets) == [TextDelta(HIDDEN), STOP]


def test_a_secret_that_ends_with_the_beginning_of_another_is_removed() -> None:
    secrets = known(SECRET, f"{SECRET[-4:]}-and-something-else")
    assert filtered([TextDelta(f"{SECRET}!")], secrets=secrets) == [TextDelta(f"{HIDDEN}!")]
    assert filtered([TextDelta(SECRET)], [TextDelta("!")], secrets=secrets) == [
        TextDelta(HIDDEN),
        TextDelta("!"),
    ]


def test_a_secret_is_recognised_as_it_is_written_in_json() -> None:
    secret = 'p"w\\é0123456789abc'
    secrets = known(secret)
    for written in (json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        chunks = filtered(
            [CallDelta(0, f'{{"a":{written[:9]}')], [CallDelta(0, f"{written[9:]}}}")], secrets=secrets
        )
        assert chunks == [CallDelta(0, '{"a":"'), CallDelta(0, HIDDEN), CallDelta(0, '"}')]
    (found,) = filtered([AnnotationAdded({"a": [{secret: secret}], "n": 1})], secrets=secrets)
    assert found == AnnotationAdded({"a": [{HIDDEN: HIDDEN}], "n": 1})


def logprob(token: str, *others: str) -> Logprob:
    return Logprob(token, [1], -0.5, [TopLogprob(other, [1], -0.5) for other in others])


def test_log_probabilities_of_a_secret_are_left_out() -> None:
    half, rest = SECRET[:9], SECRET[9:]
    chunks = filtered([TextDelta(half, (logprob(half),))], [TextDelta(rest, (logprob(rest),)), STOP])
    assert chunks == [TextDelta(HIDDEN), STOP]
    plain = TextDelta("a", (logprob("a", "a", "b"),))
    unlike = [TextDelta("a", (logprob(half),)), TextDelta("b", (logprob(rest),)), plain]
    assert filtered(unlike) == [unlike[0], TextDelta("b"), plain]
    assert filtered([TextDelta("a", (logprob("a", SECRET),))]) == [TextDelta("a")]
    rest = TextDelta(f"{SECRET} sk-c", (logprob("x"),))
    assert filtered([rest, STOP]) == [TextDelta(f"{HIDDEN} "), TextDelta("sk-c"), STOP]
    split = TextDelta("is sk-c", (logprob("is"), logprob(" sk-c")))
    assert filtered([split], [STOP]) == [TextDelta("is "), TextDelta("sk-c", split.logprobs), STOP]


SAID = f"what is {SECRET}?"
QUIET = "what is [redacted]?"
ITEM = WebSearchCall(id="ws_1", status="completed", action={"query": SAID})
QUIET_ITEM = WebSearchCall(id="ws_1", status="completed", action={"query": QUIET})
COMPLETE_TEXTS: list[tuple[Chunk, Chunk]] = [
    (Heartbeat(), Heartbeat()),
    (TurnStarted(), TurnStarted()),
    (ItemBegun(SAID), ItemBegun(QUIET)),
    (TextDelta(SAID), TextDelta(QUIET)),
    (RefusalDelta(SAID), RefusalDelta(QUIET)),
    (ReasoningDelta(SAID), ReasoningDelta(QUIET)),
    (ReasoningSummaryDelta(SAID, 1), ReasoningSummaryDelta(QUIET, 1)),
    (CallStarted(0, SAID, SAID), CallStarted(0, QUIET, QUIET)),
    (CallDelta(0, SAID), CallDelta(0, QUIET)),
    (CallFinished(0), CallFinished(0)),
    (AnnotationAdded({"url": SAID}), AnnotationAdded({"url": QUIET})),
    (HostedItemBegun(0, ITEM), HostedItemBegun(0, QUIET_ITEM)),
    (
        HostedItemStep(0, CodeInterpreterCallCodeDone, (SAID,)),
        HostedItemStep(0, CodeInterpreterCallCodeDone, (QUIET,)),
    ),
    (HostedItemStep(0, WebSearchCallSearching), HostedItemStep(0, WebSearchCallSearching)),
    (HostedItemDone(ITEM, {"results": [SAID]}), HostedItemDone(QUIET_ITEM, {"results": [QUIET]})),
    (
        ToolsFound({"query": SAID}, (FunctionTool(name=SAID), HostedTool("mcp", {"server_label": SAID}))),
        ToolsFound({"query": QUIET}, (FunctionTool(name=QUIET), HostedTool("mcp", {"server_label": QUIET}))),
    ),
    (
        DowngradesAdded((Downgrade("emulated", SAID, (SAID,)),)),
        DowngradesAdded((Downgrade("emulated", QUIET, (QUIET,)),)),
    ),
    (UsageSpent(USAGE), UsageSpent(USAGE)),
    (UsageReported(USAGE), UsageReported(USAGE)),
    (STOP, STOP),
]
SEALED_OR_OF_THE_CLIENT = {ProviderStateAdded, Compacted, StopSequenceFound}


@pytest.mark.parametrize(("chunk", "passed"), COMPLETE_TEXTS, ids=lambda chunk: type(chunk).__name__)
def test_every_text_of_every_chunk_is_filtered(chunk: Chunk, passed: Chunk) -> None:
    assert filtered([chunk]) == [passed]


def test_no_kind_of_chunk_is_forgotten() -> None:
    kinds = {type(chunk) for chunk, _ in COMPLETE_TEXTS}
    assert kinds | SEALED_OR_OF_THE_CLIENT | {Failed} == set(get_args(Chunk))


def test_errors_are_filtered() -> None:
    failed = Failed(BackendRefused(SAID, status=400, code=SAID, param=SAID))
    assert filtered([failed]) == [failed]
    error = failed.error
    assert (error.message, error.code, error.param, str(error)) == (QUIET, QUIET, QUIET, QUIET)


def test_deltas_of_endless_calls_take_bounded_memory() -> None:
    under_test = SecretFilter(known())
    tracemalloc.start()
    try:
        for index in range(MAX_SERIES):
            under_test.feed([CallDelta(index, "x sk-")])
        before, _ = tracemalloc.get_traced_memory()
        for index in range(MAX_SERIES, 20 * MAX_SERIES):
            under_test.feed([CallDelta(index, "x sk-")])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after < 2 * before


def test_short_texts_are_no_secrets() -> None:
    found = known("x" * (MIN_SECRET_CHARACTERS - 1))
    assert not found
    assert found.scrub("x" * 100) == "x" * 100


def test_the_credentials_in_headers_and_urls_are_known() -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "X-Api-Key": OTHER, "HTTP-Referer": "https://example.com"}
    assert header_secrets(headers.items()) == [SECRET, OTHER]
    assert url_password("postgresql://me:secret@host/db") == "secret"
    assert url_password("sqlite:") == url_password("http://[broken") == ""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("GET http://h/v1?key=abc&n=1", "GET http://h/v1?key=[redacted]&n=1"),
        ("GET /v1?n=1&access_token=abc", "GET /v1?n=1&access_token=[redacted]"),
        ("postgresql://me:pw@host/db", "postgresql://[redacted]@host/db"),
        ("?x-goog-signature=ab#top", "?x-goog-signature=[redacted]#top"),
        ("a = b, me@example.com", "a = b, me@example.com"),
        ("nothing", "nothing"),
    ],
)
def test_credentials_in_urls_are_redacted(line: str, shown: str) -> None:
    assert without_url_secrets(line) == shown
