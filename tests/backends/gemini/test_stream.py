"""Events to chunks: unusual events, and events in any order."""

from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.gemini.stream import StreamReader
from antiphon.backends.registry import default_endpoint
from antiphon.errors import BackendBroken, BackendRefused, BackendTimeout
from antiphon.protocol.content import Logprob, TopLogprob
from antiphon.protocol.events import Event
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Response, Usage, new_response
from antiphon.protocol.tool_items import ImageGenerationCall
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    HostedItemDone,
    ProviderStateAdded,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.machine import Machine
from antiphon.turn.provider_state import ProviderState
from tests.backends.gemini.building import ORIGIN
from tests.turn.folding import fold, response_to_wire, to_wire
from tests.turn.order import check_order

ENDPOINT = default_endpoint("gemini")


def event(*parts: dict[str, Any], finish: str | None = None, more: Any = None, **members: Any) -> bytes:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0, **(more or {})}
    if finish:
        candidate["finishReason"] = finish
    return msgspec.json.encode({"candidates": [candidate], **members})


def text_event(value: str, **members: Any) -> bytes:
    return event({"text": value, **members})


def call(name: str = "f", **members: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **members}}


STOP = event(finish="STOP")


def read(*payloads: bytes, names: dict[str, str] | None = None) -> list[Chunk]:
    reader = StreamReader(ENDPOINT, names)
    return reader.feed(payloads) + reader.end()


def read_complete(body: bytes) -> list[Chunk]:
    return StreamReader(ENDPOINT).read_body(body)


def respond(*payloads: bytes) -> tuple[list[Event], Response]:
    """The events and the response for these payloads."""
    numbers = count(1)
    response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    machine = Machine(response, new_id=lambda prefix: f"{prefix}_{next(numbers)}", tools={})
    events = [*machine.start(), *machine.feed(read(*payloads)), *machine.end(2)]
    return events, machine.response


def failure_of(chunks: list[Chunk]) -> Exception:
    last = chunks[-1]
    assert isinstance(last, Failed)
    return last.error


def mark(**body: Any) -> ProviderStateAdded:
    return ProviderStateAdded(ProviderState(ORIGIN, body))


def test_text_is_passed_on_as_it_is() -> None:
    assert read(text_event("a\u2028b"), text_event(""), text_event("c", thought=False), STOP) == [
        TextDelta("a\u2028b"),
        TextDelta("c"),
        Finished("stop"),
    ]


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b'{"candidates":[]}',
        b'{"candidates":[{}]}',
        b'{"candidates":[{"content":{}}]}',
        b'{"candidates":[{"content":{"parts":[{}],"role":"model"}}]}',
        b'{"candidates":[{"content":{"parts":[{"text":"other"}]},"index":1}]}',
        b'{"modelVersion":"m","responseId":"r","later":{"a":[1]}}',
        event({"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}),
        b'{"promptFeedback":{"safetyRatings":[]}}',
    ],
)
def test_events_without_content_are_ignored(payload: bytes) -> None:
    assert read(payload, STOP) == [Finished("stop")]


@pytest.mark.parametrize(
    "payload", [b"ping", b"[]", b'"x"', b"{", b'{"candidates":7}', b"\xff", b"[" * 100_000]
)
def test_garbage_is_a_failure(payload: bytes) -> None:
    error = failure_of(read(text_event("a"), payload))
    assert isinstance(error, BackendBroken)
    assert len(error.message) < 300


def test_garbage_after_a_complete_answer_does_no_harm() -> None:
    assert read(STOP, b"?") == [Finished("stop")]
    assert read(text_event("a"), b" [DONE] ") == [TextDelta("a"), Finished("stop")]


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        ("STOP", "stop"),
        ("FINISH_REASON_UNSPECIFIED", "stop"),
        ("LATER_REASON", "stop"),
        ("MAX_TOKENS", "length"),
        *(
            (why, "content_filter")
            for why in ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
        ),
    ],
)
def test_reasons_are_ours(why: str, expected: str) -> None:
    assert read(event(finish=why)) == [Finished(expected)]  # pyright: ignore[reportArgumentType]
    assert read_complete(event(finish=why)) == [Finished(expected)]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("why", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
def test_reasons_that_are_failures(why: str) -> None:
    error = failure_of(read(text_event("a"), event(finish=why, more={"finishMessage": "print(look())"})))
    assert isinstance(error, BackendRefused)
    assert (error.status, error.retryable) == (502, True)
    assert why in error.message
    assert "print(look())" in error.message
    assert why in str(failure_of(read_complete(event(finish=why))))


def test_a_filtered_answer_gives_the_reason() -> None:
    found = read(text_event("a"), event(finish="SAFETY", more={"finishMessage": "No."}))
    assert found == [TextDelta("a"), RefusalDelta("No."), Finished("content_filter")]
    blocked = b'{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT","blockReasonMessage":"No."}}'
    assert read(blocked) == read_complete(blocked) == [RefusalDelta("No."), Finished("content_filter")]
    bare = b'{"promptFeedback":{"blockReason":"OTHER"},"usageMetadata":{"promptTokenCount":3}}'
    assert read(bare)[-1] == read_complete(bare)[-1] == Finished("content_filter")


def test_a_stream_that_just_ends_has_failed() -> None:
    assert isinstance(failure_of(read(text_event("a"))), BackendBroken)
    assert isinstance(failure_of(read()), BackendBroken)


def test_half_an_event_at_the_end_is_omitted() -> None:
    reader = StreamReader(ENDPOINT)
    reader.feed([STOP])
    assert reader.end([b'{"candid']) == [Finished("stop")]
    assert StreamReader(ENDPOINT).end([STOP]) == [Finished("stop")]


def test_no_chunks_follow_the_end() -> None:
    reader = StreamReader(ENDPOINT)
    assert reader.feed([STOP, b"[DONE]"]) == [Finished("stop")]
    assert reader.feed([text_event("a"), event(call()), STOP, b"?", b'{"error":{}}']) == []
    assert reader.end() == []
    assert reader.lost(BackendTimeout()) == []
    assert (reader.over, reader.complete, reader.finishing) == (True, True, False)


def test_a_disconnect_after_the_finish_reason_is_no_failure() -> None:
    reader = StreamReader(ENDPOINT)
    reader.feed([text_event("a"), STOP])
    assert reader.finishing
    assert reader.lost(BackendTimeout()) == [Finished("stop")]
    early = StreamReader(ENDPOINT)
    early.feed([text_event("a")])
    assert isinstance(failure_of(early.lost(BackendTimeout())), BackendTimeout)
    assert not early.complete


def test_errors_in_a_stream() -> None:
    busy = b'{"error":{"code":503,"message":"Busy","status":"UNAVAILABLE"}}'
    error = failure_of(read(text_event("a"), busy))
    assert isinstance(error, BackendRefused)
    assert (error.status, error.retryable) == (503, True)
    assert "Busy" in error.message
    error_with_text = msgspec.json.encode(
        {**msgspec.json.decode(text_event("a")), **msgspec.json.decode(busy)}
    )
    assert isinstance(failure_of(read(error_with_text)), BackendRefused)


# Calls


def test_calls_are_emitted_complete() -> None:
    found = read(event(call(id="x", args={"a": "ü"}), call("g")), STOP)
    assert found == [
        CallStarted(0, "x", "f"),
        CallDelta(0, '{"a":"ü"}'),
        CallFinished(0),
        CallStarted(1, "", "g"),
        CallDelta(1, "{}"),
        CallFinished(1),
        Finished("tool_calls"),
    ]
    assert read(event(call(), finish="MAX_TOKENS"))[-1] == Finished("length")


def test_calls_are_by_our_names() -> None:
    found = read(event(call("_2fa"), call("g")), STOP, names={"_2fa": "2fa"})
    assert [chunk.name for chunk in found if isinstance(chunk, CallStarted)] == ["2fa", "g"]


def test_a_call_without_a_name_is_a_failure() -> None:
    assert isinstance(failure_of(read(event({"functionCall": {"args": {}}}), STOP)), BackendBroken)
    found = read(event({"functionCall": {}}, {"text": "more"}), STOP)
    assert len(found) == 1


# Thoughts and signatures


def test_thought_parts_are_emitted_as_summaries() -> None:
    found = read(
        event({"text": "h", "thought": True}),
        event({"text": "m", "thought": True, "thoughtSignature": "s"}, {"text": "So."}),
        STOP,
    )
    assert found == [
        ReasoningSummaryDelta("h"),
        ReasoningSummaryDelta("m"),
        mark(on="thought", signature="s", text="m"),
        TextDelta("So."),
        Finished("stop"),
    ]


def test_the_signature_of_a_call_is_emitted_before_it() -> None:
    found = read(text_event("Let me see."), event({**call(), "thoughtSignature": "s"}, call()), STOP)
    assert found[:3] == [TextDelta("Let me see."), mark(on="call", signature="s"), CallStarted(0, "", "f")]
    assert sum(isinstance(chunk, ProviderStateAdded) for chunk in found) == 1


def test_the_signature_of_the_first_text_is_emitted_before_it() -> None:
    expected = [mark(on="next", signature="s", start=0, length=2), TextDelta("So")]
    assert read(text_event("So", thoughtSignature="s"), text_event(" it is"), STOP)[:2] == expected
    assert read_complete(event({"text": "So", "thoughtSignature": "s"}, finish="STOP"))[:2] == expected


def test_text_is_not_held_back_for_a_later_signature() -> None:
    found = read(
        text_event("So"),
        text_event(" it", thoughtSignature="s"),
        text_event(" is"),
        text_event("", thoughtSignature="t"),
        STOP,
    )
    assert found == [
        TextDelta("So"),
        TextDelta(" it"),
        TextDelta(" is"),
        mark(on="said", signature="s", start=2, length=3),
        mark(on="said", signature="t", start=8, length=0),
        Finished("stop"),
    ]


def test_text_positions_start_anew_for_every_message() -> None:
    again = {"text": "", "thoughtSignature": "s"}
    for between in (event(call()), event({"text": "hm", "thought": True})):
        found = read(text_event("one"), event(again), between, text_event("four"), event(again), STOP)
        starts = [chunk.state.body["start"] for chunk in found if isinstance(chunk, ProviderStateAdded)]
        assert starts == [3, 4]
        assert isinstance(found[1], ProviderStateAdded)


def test_a_truncated_answer_emits_no_provider_state_for_its_text() -> None:
    for why in ("MAX_TOKENS", "SAFETY"):
        found = read(text_event("So"), event({"text": "", "thoughtSignature": "s"}, finish=why))
        assert not any(isinstance(chunk, ProviderStateAdded) for chunk in found)
    assert not any(
        isinstance(chunk, ProviderStateAdded)
        for chunk in read(text_event("a"), text_event("b", thoughtSignature="s"))
    )


# Other parts of an answer


def test_a_complete_body_yields_the_same_chunks_as_a_stream() -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "Hi", "thoughtSignature": "s"}, call(args={"a": 1})]
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 2}
    body = event(*parts, finish="STOP", usageMetadata=usage)
    assert read_complete(body) == read(body)
    assert read_complete(
        b"[" + event(*parts) + b"," + event(finish="STOP", usageMetadata=usage) + b"]"
    ) == read_complete(body)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"x", b'{"choices":[]}', b'{"candidates":[]}', b"[[]]"])
def test_an_invalid_answer_body_is_a_failure(body: bytes) -> None:
    assert isinstance(failure_of(read_complete(body)), BackendBroken)


def test_a_body_that_is_an_error() -> None:
    body = b'{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}'
    for form in (body, b"[" + body + b"]"):
        error = failure_of(read_complete(form))
        assert isinstance(error, BackendRefused)
        assert (error.status, error.code) == (429, "rate_limit_exceeded")


def test_usage() -> None:
    early = {"promptTokenCount": 10}
    late = {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 4,
        "toolUsePromptTokenCount": 3,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 38,
    }
    first = event({"text": "a"}, usageMetadata=early)
    found = read(first, event(finish="STOP", usageMetadata=late))
    assert found[1] == UsageReported(Usage(13, InputTokensDetails(4), 25, OutputTokensDetails(5), 38))
    assert read(first, STOP)[1] == UsageReported(
        Usage(10, InputTokensDetails(0), 0, OutputTokensDetails(0), 10)
    )
    assert read(event(finish="STOP", usageMetadata={"thoughtsTokenCount": 5})) == [Finished("stop")]
    assert isinstance(read(first)[-2], UsageReported)  # usage of a failure


def test_logprobs_are_emitted_with_their_text() -> None:
    result = {
        "chosenCandidates": [{"token": "ü", "logProbability": -0.5}, {"token": "b", "logProbability": -1}],
        "topCandidates": [{"candidates": [{"token": "x", "logProbability": -2}]}],
    }
    found = read(
        event(
            {"text": "hm", "thought": True}, {"text": "üb"}, {"text": "c"}, more={"logprobsResult": result}
        ),
        STOP,
    )
    assert found[1] == TextDelta(
        "üb",
        (
            Logprob("ü", [195, 188], -0.5, [TopLogprob("x", [120], -2.0)]),
            Logprob("b", [98], -1.0, []),
        ),
    )
    assert found[2] == TextDelta("c")
    single = read(event({"text": "üb"}, more={"logprobsResult": result}), STOP)[0]
    assert single == found[1]


def test_an_image_is_a_separate_item() -> None:
    payloads = text_event("Here:"), event({"inlineData": {"mimeType": "image/png", "data": "iVBO"}}), STOP
    events, response = respond(*payloads)
    check_order([to_wire(event) for event in events])
    assert [type(item).__name__ for item in response.output] == ["Message", "ImageGenerationCall"]
    found = read(*payloads)
    assert found[1] == HostedItemDone(
        ImageGenerationCall(status="completed", result="iVBO", output_format="png")
    )


GROUNDING: dict[str, Any] = {
    "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}, {"web": {"uri": "https://b"}}, {}],
    "groundingSupports": [
        {"segment": {"startIndex": 3, "endIndex": 6}, "groundingChunkIndices": [0, 1, 2, 9, "x"]},
        {"segment": {"endIndex": 1}, "groundingChunkIndices": [1]},
    ],
}


def test_sources_are_citations_in_characters() -> None:
    found = read(
        text_event("üa"), text_event("bcd"), event(finish="STOP", more={"groundingMetadata": GROUNDING})
    )
    assert [chunk.annotation for chunk in found if isinstance(chunk, AnnotationAdded)] == [
        {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 2, "end_index": 5},
        {"type": "url_citation", "url": "https://b", "title": "", "start_index": 2, "end_index": 5},
        {"type": "url_citation", "url": "https://b", "title": "", "start_index": 0, "end_index": 0},
    ]


@pytest.mark.parametrize(
    "odd",
    [7, [], {}, {"groundingChunks": 1, "groundingSupports": [1, {"segment": 1}]}, {"groundingSupports": {}}],
)
def test_invalid_sources_are_ignored(odd: Any) -> None:
    found = read(text_event("a"), event(finish="STOP", more={"groundingMetadata": odd}))
    assert found == [TextDelta("a"), Finished("stop")]


def test_sources_without_text_are_ignored() -> None:
    found = read(text_event("a"), event(call(), finish="STOP", more={"groundingMetadata": GROUNDING}))
    assert not any(isinstance(chunk, AnnotationAdded) for chunk in found)


# Events in any order


def value(text: str, signed: bool, thought: bool) -> dict[str, Any]:
    part: dict[str, Any] = {"text": text, "thought": True} if thought else {"text": text}
    return {**part, "thoughtSignature": "s"} if signed else part


def calling(call_id: str, signed: bool) -> dict[str, Any]:
    part = call(args={"a": 1}, id=call_id)
    return {**part, "thoughtSignature": "s"} if signed else part


def payload_event(some: list[dict[str, Any]], finish: str | None, more: dict[str, Any] | None) -> bytes:
    return event(*some, finish=finish, more=more)


texts = st.text(alphabet='ab{}"\n', max_size=4)
odd_parts: list[dict[str, Any]] = [{}, {"functionCall": {}}, {"executableCode": {"code": "1"}}]
parts = st.one_of(
    st.builds(value, texts, st.booleans(), st.booleans()),
    st.builds(calling, st.sampled_from(["", "x"]), st.booleans()),
    st.sampled_from(odd_parts),
)
extras: list[dict[str, Any] | None] = [None, {"groundingMetadata": GROUNDING}, {"index": 1}]
finishes = st.sampled_from([None, None, None, "STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"])
events = st.one_of(
    st.builds(payload_event, st.lists(parts, max_size=4), finishes, st.sampled_from(extras)),
    st.builds(text_event, texts),
    st.sampled_from(
        [
            b"{}",
            b"garbage",
            b"[DONE]",
            b'{"error":{"code":500,"message":"x"}}',
            b'{"promptFeedback":{"blockReason":"SAFETY"}}',
            b'{"usageMetadata":{"promptTokenCount":3}}',
        ]
    ),
)


@given(st.lists(events, max_size=15))
def test_any_order_of_events_yields_well_formed_chunks(payloads: list[bytes]) -> None:
    found = read(*payloads)
    assert isinstance(found[-1], Finished | Failed)
    assert sum(isinstance(chunk, Finished | Failed) for chunk in found) == 1
    calls = [chunk.index for chunk in found if isinstance(chunk, CallStarted)]
    assert calls == list(range(len(calls)))


@given(st.lists(events, max_size=15))
def test_any_order_of_events_yields_a_well_formed_response(payloads: list[bytes]) -> None:
    events, response = respond(*payloads)
    check_order([to_wire(event) for event in events])
    assert fold(events) == response_to_wire(response)
