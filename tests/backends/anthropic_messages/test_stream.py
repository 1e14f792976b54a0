"""Events to chunks: unusual events, and events in any order."""

from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.anthropic_messages.stream import StreamReader
from antiphon.backends.registry import default_endpoint
from antiphon.errors import BackendBroken, BackendRefused, BackendTimeout
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage, new_response
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.machine import Machine
from antiphon.turn.provider_state import ProviderState
from tests.turn.folding import fold, response_to_wire, to_wire
from tests.turn.order import check_order

ENDPOINT = default_endpoint("anthropic")
ORIGIN = "anthropic_messages@api.anthropic.com"
STOP = b'{"type":"message_stop"}'


def event(kind: str, **members: Any) -> bytes:
    return msgspec.json.encode({"type": kind, **members})


def begin(kind: str, index: int = 0, **members: Any) -> bytes:
    return event("content_block_start", index=index, content_block={"type": kind, **members})


def delta(kind: str, index: int = 0, **members: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **members})


def end(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def reason(why: str, **usage: Any) -> bytes:
    return event("message_delta", delta={"stop_reason": why}, usage=usage or None)


def text_event(content_text: str) -> bytes:
    return delta("text_delta", text=content_text)


def read(*payloads: bytes, summarised: bool = False) -> list[Chunk]:
    reader = StreamReader(ENDPOINT, summarised=summarised)
    return reader.feed(payloads) + reader.end()


def read_complete(*content: dict[str, Any], **members: Any) -> list[Chunk]:
    body = {"type": "message", "content": content, "stop_reason": "end_turn", **members}
    return StreamReader(ENDPOINT).read_body(msgspec.json.encode(body))


def failure_of(chunks: list[Chunk]) -> Exception:
    last = chunks[-1]
    assert isinstance(last, Failed)
    return last.error


def test_text_is_passed_on_as_it_is() -> None:
    assert read(begin("text", text=""), text_event("a\u2028b"), text_event(""), end(), STOP) == [
        TextDelta("a\u2028b"),
        Finished("stop"),
    ]


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b'{"type":"ping"}',
        b'{"type":"later_kind","index":null,"delta":null}'.replace(b'"index":null,', b""),
        delta("later_delta", text=None),
        delta("input_json_delta", index=7, partial_json="{}"),
        delta("thinking_delta", index=7, thinking="no block"),
        begin("later_block"),
        end(9),
        event("content_block_start", index=0),
        event("content_block_delta", index=0),
        event("message_delta"),
        event("message_start"),
    ],
)
def test_events_without_content_are_ignored(payload: bytes) -> None:
    assert read(payload, STOP) == [Finished("stop")]


@pytest.mark.parametrize("payload", [b"ping", b"[]", b'"x"', b"{", b'{"type":7}', b"\xff", b"[" * 100_000])
def test_garbage_is_a_failure(payload: bytes) -> None:
    error = failure_of(read(text_event("a"), payload))
    assert isinstance(error, BackendBroken)
    assert len(error.message) < 300


def test_garbage_after_a_complete_answer_does_no_harm() -> None:
    assert read(reason("end_turn"), b"?") == [Finished("stop")]
    assert read(text_event("a"), b" [DONE] ") == [TextDelta("a"), Finished("stop")]


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("anything", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "content_filter"),
    ],
)
def test_reasons_are_ours(why: str, expected: str) -> None:
    assert read(reason(why))[-1] == Finished(expected)  # pyright: ignore[reportArgumentType]
    assert read_complete(stop_reason=why)[-1] == Finished(expected)  # pyright: ignore[reportArgumentType]


def test_calls_are_a_reason() -> None:
    assert read(begin("tool_use", id="t", name="f"), end(), reason("tool_use"))[-1] == Finished("tool_calls")
    assert read(begin("tool_use", id="t", name="f"), reason("max_tokens"))[-1] == Finished("length")


def test_a_refusal_carries_its_explanation() -> None:
    details = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "No."}}
    assert read(event("message_delta", delta=details)) == [RefusalDelta("No."), Finished("content_filter")]
    for bare in (None, {}, {"explanation": None}, "x"):
        found = read(event("message_delta", delta={**details, "stop_details": bare}))
        assert found == [Finished("content_filter")]


def test_a_stream_that_just_ends_has_failed() -> None:
    assert isinstance(failure_of(read(text_event("a"))), BackendBroken)
    assert isinstance(failure_of(read()), BackendBroken)


def test_half_an_event_at_the_end_is_omitted() -> None:
    reader = StreamReader(ENDPOINT)
    reader.feed([reason("end_turn")])
    assert reader.end([b'{"type":"mess']) == [Finished("stop")]
    assert StreamReader(ENDPOINT).end([STOP]) == [Finished("stop")]


def test_no_chunks_follow_the_end() -> None:
    reader = StreamReader(ENDPOINT)
    assert reader.feed([STOP]) == [Finished("stop")]
    assert reader.feed([text_event("a"), begin("text", text="b"), STOP, b"?", event("error", error={})]) == []
    assert reader.end() == []
    assert reader.lost(BackendTimeout()) == []
    assert (reader.over, reader.complete, reader.finishing) == (True, True, False)


def test_a_disconnect_after_the_finish_reason_is_no_failure() -> None:
    reader = StreamReader(ENDPOINT)
    reader.feed([text_event("a"), reason("end_turn")])
    assert reader.finishing
    assert reader.lost(BackendTimeout()) == [Finished("stop")]
    early = StreamReader(ENDPOINT)
    early.feed([text_event("a")])
    assert isinstance(failure_of(early.lost(BackendTimeout())), BackendTimeout)
    assert not early.complete


def test_errors_in_a_stream() -> None:
    error = failure_of(read(event("error", error={"type": "overloaded_error", "message": "Busy"})))
    assert isinstance(error, BackendRefused)
    assert (error.status, error.retryable) == (503, True)
    assert "Busy" in error.message


# Thinking


def thinking(*, summarised: bool = False) -> list[Chunk]:
    return read(
        begin("thinking", thinking="", signature=""),
        delta("thinking_delta", thinking="h"),
        delta("thinking_delta", thinking="m"),
        delta("signature_delta", signature="s"),
        delta("signature_delta", signature="1"),
        end(),
        begin("thinking", 1, thinking="so"),
        delta("signature_delta", 1, signature="s2"),
        end(1),
        begin("redacted_thinking", 2, data="d"),
        end(2),
        STOP,
        summarised=summarised,
    )


def mark(**body: Any) -> ProviderStateAdded:
    return ProviderStateAdded(ProviderState(ORIGIN, body))


def test_thinking_yields_provider_state_with_its_signature() -> None:
    assert thinking() == [
        ReasoningDelta("h"),
        ReasoningDelta("m"),
        mark(type="thinking", signature="s1", length=2),
        ReasoningDelta("so"),
        mark(type="thinking", signature="s2", length=2),
        mark(type="redacted_thinking", data="d"),
        Finished("stop"),
    ]


def test_thinking_may_be_emitted_as_summaries() -> None:
    assert thinking(summarised=True) == [
        ReasoningSummaryDelta("h", 0),
        ReasoningSummaryDelta("m", 0),
        mark(type="thinking", signature="s1", thinking="hm"),
        ReasoningSummaryDelta("so", 1),
        mark(type="thinking", signature="s2", thinking="so"),
        mark(type="redacted_thinking", data="d"),
        Finished("stop"),
    ]


def test_hidden_thinking_yields_provider_state_too() -> None:
    found = read(begin("thinking", thinking=""), delta("signature_delta", signature="s"), end(), STOP)
    assert found == [mark(type="thinking", signature="s", length=0), Finished("stop")]
    assert read(begin("thinking", thinking=""), end(), STOP) == [Finished("stop")]


def test_a_block_that_does_not_end_ends_with_the_next_or_with_the_message() -> None:
    signed = begin("thinking", thinking="hm", signature="s")
    marked = mark(type="thinking", signature="s", length=2)
    assert read(signed, STOP) == [ReasoningDelta("hm"), marked, Finished("stop")]
    assert read(signed, begin("text", text="a"), STOP)[:3] == [ReasoningDelta("hm"), marked, TextDelta("a")]


def test_a_complete_body_yields_the_same_chunks() -> None:
    found = read_complete(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Hi", "citations": None},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "u", "name": "g", "input": {}},
        {"type": "server_tool_use", "id": "v", "name": "web_search", "input": {"q": 1}},
        usage={"input_tokens": 1, "output_tokens": 2},
        stop_reason="tool_use",
    )
    assert found == [
        ReasoningDelta("hm"),
        mark(type="thinking", signature="s", length=2),
        TextDelta("Hi"),
        CallStarted(0, "t", "f"),
        CallDelta(0, '{"a":1}'),
        CallStarted(1, "u", "g"),
        CallDelta(1, "{}"),
        UsageReported(Usage(1, InputTokensDetails(0), 2, OutputTokensDetails(0), 3)),
        Finished("tool_calls"),
    ]


@pytest.mark.parametrize("body", [b"{}", b"[]", b"x", b'{"choices":[]}', b'{"type":"message"}'])
def test_an_invalid_message_body_is_a_failure(body: bytes) -> None:
    assert isinstance(failure_of(StreamReader(ENDPOINT).read_body(body)), BackendBroken)


def test_a_body_that_is_an_error() -> None:
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}'
    error = failure_of(StreamReader(ENDPOINT).read_body(body))
    assert isinstance(error, BackendRefused)
    assert (error.status, error.code) == (429, "rate_limit_exceeded")


# Usage and citations


def test_usage_of_the_first_and_the_last_event_is_combined() -> None:
    start = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 7,
        "output_tokens": 1,
    }
    found = read(
        event("message_start", message={"usage": start}),
        reason("end_turn", output_tokens=20, output_tokens_details={"thinking_tokens": 5}),
        STOP,
    )
    assert found[0] == UsageReported(Usage(117, InputTokensDetails(100, 7), 20, OutputTokensDetails(5), 137))
    later = read(event("message_start", message={"usage": start}), reason("end_turn", input_tokens=11), STOP)
    assert later[0] == UsageReported(Usage(118, InputTokensDetails(100, 7), 1, OutputTokensDetails(0), 119))
    assert read(reason("end_turn", cache_read_input_tokens=1), STOP) == [Finished("stop")]


def test_usage_of_a_failure_is_reported() -> None:
    found = read(event("message_start", message={"usage": {"input_tokens": 10}}), text_event("a"))
    assert isinstance(found[-2], UsageReported)


@pytest.mark.parametrize(
    ("citation", "expected"),
    [
        (
            {"type": "web_search_result_location", "url": "u", "title": None},
            {"type": "url_citation", "url": "u", "title": "", "start_index": 3, "end_index": 5},
        ),
        (
            {"type": "search_result_location", "source": "u", "title": "t"},
            {"type": "url_citation", "url": "u", "title": "t", "start_index": 3, "end_index": 5},
        ),
        (
            {"type": "char_location", "document_title": "d", "file_id": "f"},
            {"type": "file_citation", "file_id": "f", "filename": "d", "index": 5},
        ),
        ({"type": "later_location"}, None),
        ("x", None),
    ],
)
def test_citations_are_annotations(citation: Any, expected: Any) -> None:
    found = read(
        begin("tool_use", 0, id="t", name="f"),
        end(0),
        begin("text", 1, text=""),
        delta("text_delta", 1, text="one"),
        end(1),
        begin("text", 2, text=""),
        delta("citations_delta", 2, citation=citation),
        delta("text_delta", 2, text="tw"),
        end(2),
        STOP,
    )
    assert [chunk.annotation for chunk in found if isinstance(chunk, AnnotationAdded)] == (
        [expected] if expected else []
    )


def test_citation_positions_start_anew_after_a_call() -> None:
    found = read(
        begin("text", 0, text="words before"),
        end(0),
        begin("tool_use", 1, id="t", name="f"),
        end(1),
        begin("text", 2, text="ab"),
        delta("citations_delta", 2, citation={"type": "web_search_result_location", "url": "u"}),
        end(2),
        STOP,
    )
    [cited] = [chunk.annotation for chunk in found if isinstance(chunk, AnnotationAdded)]
    assert (cited["start_index"], cited["end_index"]) == (0, 2)


# Events in any order

indices = st.integers(0, 2)
texts = st.text(alphabet='ab{}"\n', max_size=4)
kinds = st.sampled_from(["text", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "later"])
events = st.one_of(
    st.builds(
        begin,
        kinds,
        indices,
        text=texts,
        id=st.sampled_from(["", "t"]),
        name=st.just("f"),
        thinking=texts,
        signature=texts,
        data=texts,
        input=st.sampled_from([{}, {"a": 1}]),
    ),
    st.builds(delta, st.just("text_delta"), indices, text=texts),
    st.builds(delta, st.just("thinking_delta"), indices, thinking=texts),
    st.builds(delta, st.just("signature_delta"), indices, signature=texts),
    st.builds(
        delta,
        st.just("input_json_delta"),
        indices,
        partial_json=st.sampled_from(["", '{"a":', "1}", "{}"]),
    ),
    st.builds(delta, st.just("citations_delta"), indices, citation=st.just({"type": "char_location"})),
    st.builds(end, indices),
    st.sampled_from(
        [
            event("ping"),
            event("message_start", message={"usage": {"input_tokens": 1}}),
            reason("end_turn", output_tokens=2),
            reason("max_tokens"),
            STOP,
            b"garbage",
            event("error", error={"type": "api_error", "message": "x"}),
        ]
    ),
)


@given(st.lists(events, max_size=25), st.booleans())
def test_any_order_of_events_yields_well_formed_chunks(payloads: list[bytes], summarised: bool) -> None:
    found = read(*payloads, summarised=summarised)
    assert isinstance(found[-1], Finished | Failed)
    assert sum(isinstance(chunk, Finished | Failed) for chunk in found) == 1
    begun: set[int] = set()
    for chunk in found:
        if isinstance(chunk, CallStarted):
            assert chunk.index == len(begun)
            begun.add(chunk.index)
        elif isinstance(chunk, CallDelta):
            assert chunk.index in begun


@given(st.lists(events, max_size=25))
def test_any_order_of_events_yields_a_well_formed_response(payloads: list[bytes]) -> None:
    numbers = count(1)
    response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    machine = Machine(response, new_id=lambda prefix: f"{prefix}_{next(numbers)}", tools={})
    emitted = [*machine.start(), *machine.feed(read(*payloads)), *machine.end(2)]
    check_order([to_wire(one) for one in emitted])
    assert fold(emitted) == response_to_wire(machine.response)
