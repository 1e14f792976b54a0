"""The machine's invariants for any input (hypothesis), and the cases that real upstreams send."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BackendBroken, BackendRefused, BackendTimeout
from antiphon.protocol.content import Logprob
from antiphon.protocol.events import Event
from antiphon.protocol.items import Compaction
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage, new_response
from antiphon.turn.chunks import (
    HEARTBEAT,
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Chunk,
    Compacted,
    Failed,
    Finished,
    ReasoningDelta,
    ReasoningSummaryDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.items import MAX_PIECES
from antiphon.turn.machine import Machine
from tests.turn.chunk_strategies import TOOLS, USAGE, compactions, endings, model_chunks, searches
from tests.turn.folding import fold, response_to_wire, to_wire
from tests.turn.order import check_order

chunks = model_chunks | compactions | searches


def machine(**options: Any) -> Machine:
    numbers = count()
    response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    return Machine(response, new_id=lambda prefix: f"{prefix}_{next(numbers)}", tools=TOOLS, **options)


def run(batches: Iterable[Sequence[Chunk]], **options: Any) -> list[Event]:
    under_test = machine(**options)
    events = under_test.start()
    for batch in batches:
        events += under_test.feed(batch)
    events += under_test.end(2)
    assert fold(events) == response_to_wire(under_test.response)
    wire = [to_wire(event) for event in events]
    check_order(wire)
    return events


def output(*chunks: Chunk, **options: Any) -> list[dict[str, Any]]:
    return to_wire(run([chunks], **options)[-1])["response"]["output"]


def shape(*chunks: Chunk) -> list[tuple[str, str]]:
    """Type and text of each output item."""
    shapes: list[tuple[str, str]] = []
    for item in output(*chunks):
        item_text = item.get("arguments") or item.get("input") or ""
        for part in item.get("content", []):
            item_text += part.get("text", part.get("refusal", ""))
        shapes.append((item["type"], item_text))
    return shapes


@given(st.lists(st.lists(chunks, max_size=5), max_size=6), endings)
@pytest.mark.requirement(
    "PROTOCOL/stream-numbers",
    "PROTOCOL/stream-indices",
    "PROTOCOL/stream-stable-ids",
    "PROTOCOL/stream-fold",
    "PROTOCOL/order-refusal",
    "PROTOCOL/order-reasoning",
    "PROTOCOL/order-added",
    "PROTOCOL/divergence-reasoning-events",
)
def test_any_chunks_yield_a_well_formed_stream(batches: list[list[Chunk]], ending: Chunk | None) -> None:
    run([*batches, [ending] if ending else []])


@given(st.lists(chunks, max_size=12), endings, st.lists(chunks, max_size=3))
@pytest.mark.requirement("PROTOCOL/stream-one-terminal")
def test_no_events_follow_the_end_of_the_turn(
    model_output: list[Chunk], ending: Chunk | None, late: list[Chunk]
) -> None:
    if ending is None:
        return
    late = [chunk for chunk in late if not isinstance(chunk, UsageReported)]
    assert [to_wire(e) for e in run([[*model_output, ending]])] == [
        to_wire(e) for e in run([[*model_output, ending], late])
    ]


@given(st.text(min_size=1, max_size=30), st.data())
@pytest.mark.requirement("PROTOCOL/stream-cuts")
def test_any_split_of_deltas_yields_the_same_response(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    arguments = '{"text": "' + "x" * 9 + '"}'
    complete_calls: list[Chunk] = [
        ReasoningDelta(text),
        TextDelta(text),
        CallStarted(0, "c", "f"),
        CallDelta(0, arguments),
        Finished("stop"),
    ]
    cut: list[Chunk] = [
        *map(ReasoningDelta, pieces), *map(TextDelta, pieces), CallStarted(0, "c", "f"),
        *(CallDelta(0, character) for character in arguments), Finished("stop"),
    ]  # fmt: skip
    assert (
        to_wire(run([complete_calls])[-1])["response"]
        == to_wire(run([[chunk] for chunk in cut])[-1])["response"]
    )


@given(st.permutations([0, 0, 0, 1, 1, 1, 2, 2, 2]))
@pytest.mark.requirement("PROTOCOL/order-one-after-another")
def test_interleaved_calls_are_emitted_sequentially_without_loss(order: list[int]) -> None:
    pieces = {call: iter(['{"n":', f'"{call}', '"}']) for call in (0, 1, 2)}
    started: list[int] = []
    model_output: list[Chunk] = []
    for call in order:
        if call not in started:
            started.append(call)
            model_output.append(CallStarted(call, f"call_{call}", "f"))
        model_output.append(CallDelta(call, next(pieces[call])))
    expected = [("function_call", f'{{"n":"{call}"}}') for call in started]
    assert shape(*model_output, Finished("tool_calls")) == expected


@pytest.mark.requirement("PROTOCOL/object-ids", "PROTOCOL/order-message")
def test_text_becomes_one_message() -> None:
    assert shape(TextDelta("Hel"), TextDelta("lo"), Finished("stop")) == [("message", "Hello")]


def test_a_text_of_many_deltas_is_complete_and_its_citations_keep_their_places() -> None:
    batch: list[Chunk] = [TextDelta(f"{number} ") for number in range(MAX_PIECES + 1)]
    cited = AnnotationAdded({"type": "file_citation", "file_id": "file_1"})
    batches = [batch, batch[:3], [cited], batch, [TextDelta("end"), Finished("stop")]]
    (part,) = to_wire(run(batches)[-1])["response"]["output"][0]["content"]
    once = "".join(f"{number} " for number in range(MAX_PIECES + 1))
    assert part["text"] == once + "0 1 2 " + once + "end"
    assert [annotation["index"] for annotation in part["annotations"]] == [len(once) + 6]


def test_text_after_a_complete_call_is_a_new_message() -> None:
    model_output = (
        TextDelta("a"),
        CallStarted(0, "c", "f"),
        CallDelta(0, "{}"),
        TextDelta("b"),
        Finished("stop"),
    )
    assert shape(*model_output) == [("message", "a"), ("function_call", "{}"), ("message", "b")]


def test_text_within_an_unfinished_call_waits_for_the_call() -> None:
    model_output = (
        CallStarted(0, "c", "f"),
        CallDelta(0, '{"a"'),
        TextDelta("b"),
        CallDelta(0, ":1}"),
        Finished("stop"),
    )
    assert shape(*model_output) == [("function_call", '{"a":1}'), ("message", "b")]


@pytest.mark.requirement("PROTOCOL/order-function-call")
def test_a_second_call_streams_as_soon_as_the_first_is_complete() -> None:
    under_test = machine()
    under_test.feed([CallStarted(0, "a", "f"), CallDelta(0, '{"x":1}'), CallStarted(1, "b", "f")])
    live = [to_wire(event)["type"] for event in under_test.feed([CallDelta(1, '{"y"')])]
    assert live == ["response.function_call_arguments.delta"]


@pytest.mark.requirement("PROTOCOL/items-empty-answer", "PROTOCOL/order-empty-text")
def test_an_empty_answer_is_an_empty_message() -> None:
    assert shape(Finished("stop")) == [("message", "")]
    assert shape(ReasoningDelta("hm"), Finished("stop")) == [("reasoning", "hm"), ("message", "")]


@pytest.mark.requirement("PROTOCOL/items-empty-arguments")
def test_a_call_without_arguments_has_the_empty_object() -> None:
    assert shape(CallStarted(0, "c", "f"), Finished("tool_calls")) == [("function_call", "{}")]


@pytest.mark.requirement("PROTOCOL/create-max-output-tokens", "PROTOCOL/order-incomplete")
def test_length_makes_the_response_and_the_open_item_incomplete() -> None:
    last = to_wire(run([[TextDelta("a"), Finished("length")]])[-1])
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert last["response"]["completed_at"] is None


def test_a_call_completed_before_a_truncation_is_completed() -> None:
    calls = (CallStarted(0, "a", "f"), CallDelta(0, "{}"), CallStarted(1, "b", "f"), CallDelta(1, '{"x'))
    assert [item["status"] for item in output(*calls, Finished("length"))] == ["completed", "incomplete"]


@pytest.mark.requirement("PROTOCOL/create-content-filter")
def test_content_filter_is_a_reason_to_be_incomplete() -> None:
    last = to_wire(run([[Finished("content_filter")]])[-1])
    assert last["response"]["incomplete_details"] == {"reason": "content_filter"}
    assert last["response"]["output"] == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BackendTimeout(), "server_error"),
        (BackendRefused("slow down", status=429), "rate_limit_exceeded"),
        (BackendRefused("too long", status=400, code="context_length_exceeded"), "context_length_exceeded"),
    ],
)
@pytest.mark.requirement("PROTOCOL/stream-error")
def test_a_failure_is_an_error_and_then_response_failed(error: BackendRefused, code: str) -> None:
    *_, mishap, last = map(to_wire, run([[TextDelta("a"), Failed(error)]]))
    assert mishap["error"] == {
        "type": error.to_wire()["type"],
        "code": error.code,
        "message": error.message,
        "param": None,
    }
    assert last["response"]["error"] == {"code": code, "message": error.message}
    assert last["response"]["output"][0]["status"] == "incomplete"


@pytest.mark.requirement("PROTOCOL/stream-broken")
def test_a_stream_that_just_ends_has_failed() -> None:
    assert to_wire(run([[TextDelta("a")]])[-1])["response"]["status"] == "failed"


@pytest.mark.requirement("PROTOCOL/items-call-id")
def test_duplicate_and_missing_call_ids_are_replaced() -> None:
    calls = (
        CallStarted(0, "c", "f"),
        CallDelta(0, "{}"),
        CallStarted(1, "c", "f"),
        CallDelta(1, "{}"),
        CallStarted(2, "", "f"),
    )
    ids = [item["call_id"] for item in output(*calls, Finished("tool_calls"))]
    assert ids[0] == "c"
    assert len(set(ids)) == 3
    assert all(ids)


@pytest.mark.requirement("PROTOCOL/object-usage", "PROTOCOL/stream-usage-last")
def test_the_last_usage_counts_even_after_the_finish() -> None:
    early = Usage(0, InputTokensDetails(), 0, OutputTokensDetails(), 0)
    last = run([[UsageReported(early), TextDelta("a"), Finished("stop")], [UsageReported(USAGE)]])[-1]
    assert to_wire(last)["response"]["usage"]["total_tokens"] == 8


@pytest.mark.requirement("PROTOCOL/divergence-usage-unknown")
def test_unreported_usage_is_null() -> None:
    assert to_wire(run([[Finished("stop")]])[-1])["response"]["usage"] is None


@pytest.mark.requirement(
    "PROTOCOL/items-custom-call",
    "PROTOCOL/items-namespace",
    "PROTOCOL/order-custom-tool-call",
)
def test_names_of_custom_and_namespaced_tools_are_restored() -> None:
    custom, namespaced = output(
        CallStarted(0, "a", "patch"), CallDelta(0, '{"input":"*** Begin"}'),
        CallStarted(1, "b", "time__now"), Finished("tool_calls"),
    )  # fmt: skip
    assert (custom["type"], custom["name"], custom["input"]) == ("custom_tool_call", "patch", "*** Begin")
    assert (namespaced["name"], namespaced["namespace"]) == ("now", "time")


def test_a_custom_call_with_raw_text_keeps_its_text() -> None:
    assert output(CallStarted(0, "a", "patch"), CallDelta(0, "raw"), Finished("stop"))[0]["input"] == "raw"


@pytest.mark.requirement("PROTOCOL/tools-forbidden-call")
def test_a_forbidden_call_fails_the_response() -> None:
    model_output = (CallStarted(0, "c", "f"), TextDelta("x"), Finished("stop"))
    last = to_wire(run([model_output], forbidden=frozenset({"f"}))[-1])
    assert last["type"] == "response.failed"
    assert last["response"]["output"] == []


@pytest.mark.parametrize("late", [CallDelta(0, "x"), CallDelta(7, "x")])
def test_arguments_that_belong_to_no_open_call_fail_the_response(late: CallDelta) -> None:
    model_output = (
        CallStarted(0, "c", "f"),
        CallDelta(0, "{}"),
        TextDelta("a"),
        late,
        TextDelta("b"),
        Finished("stop"),
    )
    last = to_wire(run([model_output])[-1])
    assert last["response"]["status"] == "failed"


def test_late_white_space_for_a_complete_call_is_ignored() -> None:
    model_output = (
        CallStarted(0, "c", "f"),
        CallDelta(0, "{}"),
        TextDelta("a"),
        CallDelta(0, "\n"),
        Finished("stop"),
    )
    assert shape(*model_output) == [("function_call", "{}"), ("message", "a")]


def test_reasoning_is_sealed_on_request() -> None:
    item = output(ReasoningDelta("a"), ReasoningDelta("b"), Finished("stop"), seal="<{}>".format)[0]
    assert item["encrypted_content"] == "<ab>"
    assert item["content"] == [{"type": "reasoning_text", "text": "ab"}]


@pytest.mark.requirement("PROTOCOL/order-reasoning-summary")
def test_summaries_have_their_own_parts() -> None:
    item = output(ReasoningSummaryDelta("a", 0), ReasoningSummaryDelta("b", 1), Finished("stop"))[0]
    assert [part["text"] for part in item["summary"]] == ["a", "b"]


@pytest.mark.requirement("PROTOCOL/create-logprobs")
def test_logprobs_travel_with_their_deltas() -> None:
    logprob = Logprob("a", [97], -0.5)
    item = output(TextDelta("a", (logprob,)), TextDelta("b"), Finished("stop"))[0]
    assert item["content"][0]["logprobs"][0]["logprob"] == -0.5


@pytest.mark.requirement("PROTOCOL/items-annotations", "PROTOCOL/order-annotations")
def test_annotations_follow_their_text() -> None:
    citation = {
        "type": "url_citation",
        "url": "https://example.org",
        "title": "t",
        "start_index": 0,
        "end_index": 1,
    }
    item = output(TextDelta("a"), AnnotationAdded(citation), TextDelta("b"), Finished("stop"))[0]
    assert item["content"][0] == {
        "type": "output_text",
        "text": "ab",
        "annotations": [citation],
        "logprobs": [],
    }


@pytest.mark.requirement("PROTOCOL/divergence-keepalive")
def test_a_keepalive_has_its_own_sequence_number() -> None:
    under_test = machine()
    numbers = [
        event.sequence_number
        for event in [*under_test.start(), *under_test.feed(HEARTBEAT), *under_test.end(2)]
    ]
    assert numbers == list(range(len(numbers)))


def test_the_error_of_a_broken_backend_is_reported() -> None:
    under_test = machine()
    under_test.feed([Failed(BackendBroken("cut"))])
    assert under_test.over
    under_test.end(2)
    assert under_test.response.error
    assert under_test.response.error.message == "cut"
    assert under_test.failure


@given(st.lists(st.lists(chunks, max_size=5), max_size=6), endings)
def test_a_response_is_the_same_with_and_without_streaming(
    batches: list[list[Chunk]], ending: Chunk | None
) -> None:
    def result(unstreamed: bool) -> Any:
        under_test = machine(silent=unstreamed)
        events = under_test.start()
        for batch in [*batches, [ending] if ending else []]:
            events += under_test.feed(batch)
        assert not (unstreamed and events), "nobody reads them"
        under_test.end(2)
        return under_test.response, str(under_test.failure)

    assert result(unstreamed=True) == result(unstreamed=False)


@pytest.mark.requirement("PROTOCOL/order-compaction")
def test_a_requested_compaction_emits_a_progress_event() -> None:
    kinds = [
        to_wire(event)["type"] for event in run([[Compacted("sealed", USAGE, asked=True), Finished("stop")]])
    ]
    assert kinds[2:5] == [
        "response.output_item.added",
        "response.compaction.compacting",
        "response.output_item.done",
    ]


@pytest.mark.requirement("PROTOCOL/order-compaction")
def test_a_compaction_is_emitted_in_one_piece_before_the_answer() -> None:
    events = [to_wire(event) for event in run([[Compacted("sealed"), TextDelta("yes"), Finished("stop")]])]
    assert [event["type"] for event in events[2:4]] == [
        "response.output_item.added",
        "response.output_item.done",
    ]
    compaction, message = events[-1]["response"]["output"]
    assert events[2]["item"]["encrypted_content"] == compaction["encrypted_content"] == "sealed"
    assert (compaction["id"][:4], message["type"]) == ("cmp_", "message")


def test_an_empty_answer_after_a_compaction_is_an_answer() -> None:
    assert [item["type"] for item in output(Compacted("sealed"), Finished("stop"))] == [
        "compaction",
        "message",
    ]


def test_a_compaction_that_is_all_is_concluded_without_a_message() -> None:
    under_test = machine()
    under_test.feed([Compacted("sealed", USAGE, asked=True)])
    under_test.complete()
    under_test.end(2)
    assert [type(item) for item in under_test.response.output] == [Compaction]
    assert under_test.response.usage == USAGE


def test_usage_of_a_compaction_is_added_to_the_turns_usage() -> None:
    chunks = [Compacted("sealed", USAGE), TextDelta("yes"), Finished("stop")]
    usage = to_wire(run([[*chunks, UsageReported(USAGE), UsageReported(USAGE)]])[-1])["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (6, 10, 16)
    assert usage["input_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 0}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 4}
    assert to_wire(run([chunks])[-1])["response"]["usage"]["total_tokens"] == 8
