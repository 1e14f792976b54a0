"""An answer is cut off at its limits, exactly, and counted over all of its batches."""

import tracemalloc
from collections.abc import Sequence

import pytest

from antiphon.protocol.content import Logprob
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.turn.answer_limit import MAX_UNMEASURED_TEXTS, AnswerBounds, AnswerLimit
from antiphon.turn.chunks import (
    HEARTBEAT,
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    DowngradesAdded,
    Finished,
    HostedItemDone,
    ItemBegun,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)

USAGE = UsageReported(Usage(1, InputTokensDetails(), 2, OutputTokensDetails(), 3))
HOSTED = HostedItemDone(WebSearchCall(id="ws_1", status="completed", action={"type": "search", "query": "q"}))


def take(batches: Sequence[Sequence[Chunk]], **bounds: int) -> tuple[list[Chunk], str | None]:
    """The chunks that pass, without the end that the limit adds, and the limit that was reached."""
    limit, passed = AnswerLimit(AnswerBounds(**bounds)), list[Chunk]()
    for batch in batches:
        passed += limit.take(batch)
        if limit.reached is not None:
            assert passed.pop() == Finished("length")
            return [chunk for chunk in passed if not isinstance(chunk, DowngradesAdded)], limit.reached
    return passed, None


@pytest.mark.parametrize("split", [1, 3, 100])
@pytest.mark.parametrize("text", ["abcd", "äöüß", "日本語の", "😀a"])
def test_bytes_are_those_of_utf_8(text: str, split: int) -> None:
    chunks = [TextDelta(text)] * 50
    batches = [chunks[at : at + split] for at in range(0, 50, split)]
    size = 50 * len(text.encode())
    assert take(batches, max_bytes=size) == (chunks, None)
    passed, reached = take(batches, max_bytes=size - 1)
    assert reached == f"{size - 1} bytes"
    assert passed[:49] == chunks[:49]
    last = passed[49]
    assert isinstance(last, TextDelta)
    assert last.text == text.encode()[:-1].decode(errors="ignore")


def test_texts_are_not_kept_in_memory_until_the_end() -> None:
    limit = AnswerLimit(AnswerBounds(max_bytes=10**9))
    tracemalloc.start()
    try:
        for number in range(5 * MAX_UNMEASURED_TEXTS):
            limit.take([TextDelta(f"é{number}" * 500)])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * MAX_UNMEASURED_TEXTS * len(f"é{5 * MAX_UNMEASURED_TEXTS}" * 500)


@pytest.mark.parametrize(
    "more",
    [
        ReasoningDelta("x" * 60),
        RefusalDelta("x" * 60),
        CallDelta(0, "x" * 60),
        CallStarted(1, "c" * 30, "n" * 30),
        AnnotationAdded({"type": "url_citation", "url": "x" * 60}),
        HOSTED,
        TextDelta("x", (Logprob("x", [120], -0.1),)),
    ],
)
def test_everything_that_a_model_sends_is_counted(more: Chunk) -> None:
    batches = [[TextDelta("x" * 60)], [CallStarted(0, "", "")], [more], [TextDelta("x" * 9)]]
    assert take(batches, max_bytes=100)[1] == "100 bytes"
    assert take(batches, max_bytes=1000)[1] is None


def test_one_text_beyond_the_limit_is_cut() -> None:
    assert take([[TextDelta("x" * 5000)]], max_bytes=1000) == ([TextDelta("x" * 1000)], "1000 bytes")
    assert take([[ReasoningDelta("x" * 5000)]], max_bytes=1000) == (
        [ReasoningDelta("x" * 1000)],
        "1000 bytes",
    )


@pytest.mark.parametrize("split", [1, 7, 1000])
def test_the_chunks_of_a_stream_are_counted_as_tokens(split: int) -> None:
    chunks = [TextDelta("")] * 500
    batches = [chunks[at : at + split] for at in range(0, 500, split)]
    assert take(batches, max_tokens=500)[1] is None
    passed, reached = take(batches, max_tokens=499)
    assert (len(passed), reached) == (499, "499 tokens")


def test_calls_are_counted() -> None:
    chunks: list[Chunk] = []
    for index in range(5):
        chunks += [CallStarted(index, f"c{index}", "f"), CallDelta(index, "{}"), CallFinished(index)]
    assert take([chunks], max_calls=5)[1] is None
    assert take([chunks], max_calls=4) == (chunks[:12], "4 calls")


def test_items_are_counted_as_the_layout_begins_them() -> None:
    text, thought = TextDelta("a"), ReasoningDelta("b")
    chunks: list[Chunk] = [thought, thought, text, text, thought, text, ItemBegun(), text, HOSTED, text]
    assert take([chunks], max_items=7)[1] is None
    assert take([[chunk] for chunk in chunks], max_items=7)[1] is None
    assert take([chunks], max_items=6) == (chunks[:9], "6 items")
    assert take([[chunk] for chunk in chunks], max_items=6) == (chunks[:9], "6 items")


def test_the_usage_of_an_answer_in_one_piece_is_reported() -> None:
    limit = AnswerLimit(AnswerBounds(max_bytes=1000))
    batch = limit.take([TextDelta("x" * 2000), USAGE, Finished("stop")])
    assert batch[0] == TextDelta("x" * 1000)
    assert batch[-2:] == [USAGE, Finished("length")]
    (cut,) = [chunk for chunk in batch if isinstance(chunk, DowngradesAdded)]
    assert cut.downgrades[0].code == "output_limit"
    assert "1000 bytes" in cut.downgrades[0].text


def test_heartbeats_and_ends_are_not_counted() -> None:
    limit = AnswerLimit(AnswerBounds(max_tokens=100))
    for _ in range(200):
        assert limit.take(HEARTBEAT) is HEARTBEAT
    assert limit.reached is None


def test_a_limit_that_is_counted_elsewhere_ends_the_answer_with_the_next_batch() -> None:
    limit = AnswerLimit()
    limit.reach("10 events")
    assert limit.take(HEARTBEAT)[-1] == Finished("length")
