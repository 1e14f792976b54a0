"""Events to chunks: odd ones, and any order of them."""

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


def say(words: str, **members: Any) -> bytes:
    return event({"text": words, **members})


def call(name: str = "f", **members: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **members}}


STOP = event(finish="STOP")


def read(*payloads: bytes, names: dict[str, str] | None = None) -> list[Chunk]:
    reader = StreamReader(ENDPOINT, names)
    return reader.feed(payloads) + reader.end()


def whole(body: bytes) -> list[Chunk]:
    return StreamReader(ENDPOINT).read_body(body)


def respond(*payloads: bytes) -> tuple[list[Event], Response]:
    """The events that come of it, and the response."""
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
    assert read(say("a\u2028b"), say(""), say("c", thought=False), STOP) == [
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
def test_what_says_nothing_is_ignored(payload: bytes) -> None:
    assert read(payload, STOP) == [Finished("stop")]


@pytest.mark.parametrize(
    "payload", [b"ping", b"[]", b'"x"', b"{", b'{"candidates":7}', b"\xff", b"[" * 100_000]
)
def test_garbage_is_a_failure(payload: bytes) -> None:
    error = failure_of(read(say("a"), payload))
    assert isinstance(error, BackendBroken)
    assert len(error.message) < 300


def test_garbage_after_a_complete_answer_does_no_harm() -> None:
    assert read(STOP, b"?") == [Finished("stop")]
    assert read(say("a"), b" [DONE] ") == [TextDelta("a"), Finished("stop")]


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
    assert whole(event(finish=why)) == [Finished(expected)]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("why", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
def test_reasons_that_are_failures(why: str) -> None:
    error = failure_of(read(say("a"), event(finish=why, more={"finishMessage": "print(look())"})))
    assert isinstance(error, BackendRefused)
    assert (error.status, error.retryable) == (502, True)
    assert why in error.message
    assert "print(look())" in error.message
    assert why in str(failure_of(whole(event(finish=why))))


def test_what_was_filtered_says_why() -> None:
    found = read(say("a"), event(finish="SAFETY", more={"finishMessage": "No."}))
    assert found == [TextDelta("a"), RefusalDelta("No."), Finished("content_filter")]
    blocked = b'{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT","blockReasonMessage":"No."}}'
    assert read(blocked) == whole(blocked) == [RefusalDelta("No."), Finished("content_filter")]
    bare = b'{"promptFeedback":{"blockReason":"OTHER"},"usageMetadata":{"promptTokenCount":3}}'
    assert read(bare)[-1] == whole(bare)[-1] == Finished("content_filter")


def test_a_stream_that_just_ends_has_failed() -> None:
    assert isinstance(failure_of(read(say("a"))), BackendBroken)
    assert isinstance(failure_of(read()), BackendBroken)


def test_half_an_event_at_the_end_is_left_out() -> None:
    reader = StreamReader(ENDPOINT)
    reader.feed([STOP])
    assert reader.end([b'{"candid']) == [Finished("stop")]
    assert StreamReader(ENDPOINT).end([STOP]) == [Finished("stop")]


def test_nothing_is_said_after_the_end() -> None:
    reader = StreamReader(ENDPOINT)
    assert reader.feed([STOP, b"[DONE]"]) == [Finished("stop")]
    assert reader.feed([say("a"), event(call()), STOP, b"?", b'{"error":{}}']) == []
    assert reader.end() == []
    assert reader.lost(BackendTimeout()) == []
    assert (reader.over, reader.complete, reader.finishing) == (True, True, False)


def test_a_loss_after_the_reason_is_no_loss() -> None:
    reader = StreamReader(ENDPOINT)
    reader.feed([say("a"), STOP])
    assert reader.finishing
    assert reader.lost(BackendTimeout()) == [Finished("stop")]
    early = StreamReader(ENDPOINT)
    early.feed([say("a")])
    assert isinstance(failure_of(early.lost(BackendTimeout())), BackendTimeout)
    assert not early.complete


def test_errors_in_a_stream() -> None:
    busy = b'{"error":{"code":503,"message":"Busy","status":"UNAVAILABLE"}}'
    error = failure_of(read(say("a"), busy))
    assert isinstance(error, BackendRefused)
    assert (error.status, error.retryable) == (503, True)
    assert "Busy" in error.message
    beside = msgspec.json.encode({**msgspec.json.decode(say("a")), **msgspec.json.decode(busy)})
    assert isinstance(failure_of(read(beside)), BackendRefused)


# Calls


def test_calls_come_whole() -> None:
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


def test_thoughts_are_summaries() -> None:
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


def test_the_signature_of_a_call_is_told_before_it() -> None:
    found = read(say("Let me see."), event({**call(), "thoughtSignature": "s"}, call()), STOP)
    assert found[:3] == [TextDelta("Let me see."), mark(on="call", signature="s"), CallStarted(0, "", "f")]
    assert sum(isinstance(chunk, ProviderStateAdded) for chunk in found) == 1


def test_the_signature_of_the_first_words_is_told_before_them() -> None:
    expected = [mark(on="next", signature="s", start=0, length=2), TextDelta("So")]
    assert read(say("So", thoughtSignature="s"), say(" it is"), STOP)[:2] == expected
    assert whole(event({"text": "So", "thoughtSignature": "s"}, finish="STOP"))[:2] == expected


def test_words_that_are_being_told_are_not_stopped_for_a_signature() -> None:
    found = read(say("So"), say(" it", thoughtSignature="s"), say(" is"), say("", thoughtSignature="t"), STOP)
    assert found == [
        TextDelta("So"),
        TextDelta(" it"),
        TextDelta(" is"),
        mark(on="said", signature="s", start=2, length=3),
        mark(on="said", signature="t", start=8, length=0),
        Finished("stop"),
    ]


def test_the_words_are_counted_anew_for_every_message() -> None:
    again = {"text": "", "thoughtSignature": "s"}
    for between in (event(call()), event({"text": "hm", "thought": True})):
        found = read(say("one"), event(again), between, say("four"), event(again), STOP)
        marks = [chunk.mark.body["start"] for chunk in found if isinstance(chunk, ProviderStateAdded)]
        assert marks == [3, 4]
        assert isinstance(found[1], ProviderStateAdded)


def test_an_answer_that_was_cut_off_ends_with_its_words() -> None:
    for why in ("MAX_TOKENS", "SAFETY"):
        found = read(say("So"), event({"text": "", "thoughtSignature": "s"}, finish=why))
        assert not any(isinstance(chunk, ProviderStateAdded) for chunk in found)
    assert not any(
        isinstance(chunk, ProviderStateAdded) for chunk in read(say("a"), say("b", thoughtSignature="s"))
    )


# What else is in an answer


def test_a_whole_answer_gives_the_same_chunks_as_a_stream() -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "Hi", "thoughtSignature": "s"}, call(args={"a": 1})]
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 2}
    body = event(*parts, finish="STOP", usageMetadata=usage)
    assert whole(body) == read(body)
    assert whole(b"[" + event(*parts) + b"," + event(finish="STOP", usageMetadata=usage) + b"]") == whole(
        body
    )


@pytest.mark.parametrize("body", [b"{}", b"[]", b"x", b'{"choices":[]}', b'{"candidates":[]}', b"[[]]"])
def test_a_body_that_is_no_answer_is_a_failure(body: bytes) -> None:
    assert isinstance(failure_of(whole(body)), BackendBroken)


def test_a_body_that_is_an_error() -> None:
    body = b'{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}'
    for form in (body, b"[" + body + b"]"):
        error = failure_of(whole(form))
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
    assert isinstance(read(first)[-2], UsageReported)  # what a failure cost


def test_logprobs_go_with_their_words() -> None:
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
    alone = read(event({"text": "üb"}, more={"logprobsResult": result}), STOP)[0]
    assert alone == found[1]


def test_an_image_is_an_item_of_its_own() -> None:
    payloads = say("Here:"), event({"inlineData": {"mimeType": "image/png", "data": "iVBO"}}), STOP
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
    found = read(say("üa"), say("bcd"), event(finish="STOP", more={"groundingMetadata": GROUNDING}))
    assert [chunk.annotation for chunk in found if isinstance(chunk, AnnotationAdded)] == [
        {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 2, "end_index": 5},
        {"type": "url_citation", "url": "https://b", "title": "", "start_index": 2, "end_index": 5},
        {"type": "url_citation", "url": "https://b", "title": "", "start_index": 0, "end_index": 0},
    ]


@pytest.mark.parametrize(
    "odd",
    [7, [], {}, {"groundingChunks": 1, "groundingSupports": [1, {"segment": 1}]}, {"groundingSupports": {}}],
)
def test_odd_sources_are_none(odd: Any) -> None:
    found = read(say("a"), event(finish="STOP", more={"groundingMetadata": odd}))
    assert found == [TextDelta("a"), Finished("stop")]


def test_sources_of_no_words_are_none() -> None:
    found = read(say("a"), event(call(), finish="STOP", more={"groundingMetadata": GROUNDING}))
    assert not any(isinstance(chunk, AnnotationAdded) for chunk in found)


# Anything in any order


def words(text: str, signed: bool, thought: bool) -> dict[str, Any]:
    part: dict[str, Any] = {"text": text, "thought": True} if thought else {"text": text}
    return {**part, "thoughtSignature": "s"} if signed else part


def calling(call_id: str, signed: bool) -> dict[str, Any]:
    part = call(args={"a": 1}, id=call_id)
    return {**part, "thoughtSignature": "s"} if signed else part


def told(some: list[dict[str, Any]], finish: str | None, more: dict[str, Any] | None) -> bytes:
    return event(*some, finish=finish, more=more)


texts = st.text(alphabet='ab{}"\n', max_size=4)
odd_parts: list[dict[str, Any]] = [{}, {"functionCall": {}}, {"executableCode": {"code": "1"}}]
parts = st.one_of(
    st.builds(words, texts, st.booleans(), st.booleans()),
    st.builds(calling, st.sampled_from(["", "x"]), st.booleans()),
    st.sampled_from(odd_parts),
)
extras: list[dict[str, Any] | None] = [None, {"groundingMetadata": GROUNDING}, {"index": 1}]
finishes = st.sampled_from([None, None, None, "STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"])
events = st.one_of(
    st.builds(told, st.lists(parts, max_size=4), finishes, st.sampled_from(extras)),
    st.builds(say, texts),
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
def test_any_order_of_events_gives_well_formed_chunks(payloads: list[bytes]) -> None:
    found = read(*payloads)
    assert isinstance(found[-1], Finished | Failed)
    assert sum(isinstance(chunk, Finished | Failed) for chunk in found) == 1
    calls = [chunk.index for chunk in found if isinstance(chunk, CallStarted)]
    assert calls == list(range(len(calls)))


@given(st.lists(events, max_size=15))
def test_any_order_of_events_gives_a_well_formed_response(payloads: list[bytes]) -> None:
    events, response = respond(*payloads)
    check_order([to_wire(event) for event in events])
    assert fold(events) == response_to_wire(response)
