"""How an answer ends: completed, incomplete, failed, or without an end."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.responses.stream import StreamReader
from antiphon.errors import BackendBroken, BackendRefused, BackendTimeout
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    Failed,
    Finished,
    ItemBegun,
    TextDelta,
    UsageReported,
)
from tests.backends.responses.payloads import (
    CALLED,
    ENDPOINT,
    NAMES,
    STOP,
    added,
    call,
    done,
    ended,
    event,
    failure_of,
    message,
    read,
    read_complete,
    reasoning,
    text_event,
    write,
)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "content_filter"),
        ("steered", "length"),
        (None, "length"),
    ],
)
def test_reasons_to_be_incomplete(reason: str | None, expected: Any) -> None:
    details = {"incomplete_details": {"reason": reason}} if reason else {}
    assert read(text_event("a"), ended(status="incomplete", **details)) == [
        TextDelta("a"),
        Finished(expected),
    ]


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_a_call_without_a_done_event(kind: str) -> None:
    """It is complete if the response is, and incomplete if the response is."""
    stem = "function_call_arguments" if kind == "function_call" else "custom_tool_call_input"
    begun = added(call("", kind)), event(f"response.{stem}.delta", item_id="fc_1", output_index=0, delta="x")
    assert read(*begun, ended())[-2:] == [CallFinished(0), CALLED]
    cut = read(*begun, ended(status="incomplete"))
    assert cut[-2:] == [CallDelta(0, "x"), Finished("length")]


def test_usage_is_passed_on_unchanged() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}}
    expected = Usage(3, InputTokensDetails(1), 2, OutputTokensDetails(0), 5)
    assert read(ended(usage=usage)) == [UsageReported(expected), STOP]
    assert read(ended(usage={**usage, "total_tokens": 9}))[0] == UsageReported(
        Usage(3, InputTokensDetails(1), 2, OutputTokensDetails(0), 9)
    )
    assert read(ended(usage={"total_tokens": 5})) == [STOP]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ({"code": "rate_limit_exceeded", "message": "m"}, 429, "rate_limit_exceeded"),
        ({"code": "insufficient_quota", "message": "m"}, 429, "insufficient_quota"),
        ({"code": "context_length_exceeded", "message": "m"}, 400, "context_length_exceeded"),
        ({"code": None, "message": "It exceeds the context window"}, 400, "context_length_exceeded"),
        ({"code": "server_error", "message": "m"}, 502, "upstream_error"),
        ({"code": "invalid_prompt", "message": "m"}, 400, "invalid_prompt"),
        ({"type": "overloaded_error", "message": "m"}, 503, "upstream_error"),
        ({"code": 503, "message": "m"}, 503, "upstream_error"),
        (None, 502, "upstream_error"),
        ("words", 502, "upstream_error"),
    ],
)
def test_failures(error: object, status: int, code: str) -> None:
    for chunks in (
        read(text_event("a"), ended(status="failed", error=error)),
        read(
            text_event("a"), event("error", error=error), ended(status="failed", error={"message": "other"})
        ),
        read(text_event("a"), event("error", error=error)),
        read_complete(status="failed", error=error, output=[]),
    ):
        assert (failure_of(chunks).status, failure_of(chunks).code) == (status, code)


def test_a_flat_error_and_one_without_a_type() -> None:
    flat = event("error", code="rate_limit_exceeded", message="slow down", param=None)
    assert failure_of(read(flat)).message == "slow down"
    bare = msgspec.json.encode({"error": {"message": "no", "code": "invalid_prompt"}})
    assert failure_of(read(bare)).code == "invalid_prompt"
    assert failure_of(read(event("error"))).message == "The upstream 'openai-responses' failed."


def test_usage_of_a_failure_is_reported() -> None:
    usage = {"input_tokens": 3, "output_tokens": 0}
    reader = StreamReader(ENDPOINT, NAMES)
    assert reader.feed([event("error", error={"message": "no"})]) == []
    assert reader.finishing
    chunks = reader.feed([ended(status="failed", usage=usage, error={"message": "no"})])
    assert isinstance(chunks[0], UsageReported)
    assert reader.over
    assert not reader.complete
    assert not reader.finishing


def test_a_response_that_was_cancelled_has_failed() -> None:
    error = failure_of(
        read(text_event("a"), ended(status="incomplete"), text_event("b"))
        and read_complete(status="cancelled")
    )
    assert isinstance(error, BackendRefused)
    assert "cancelled" in error.message


def test_a_stream_that_just_ends_has_failed() -> None:
    chunks = read(text_event("a"))
    assert chunks[0] == TextDelta("a")
    assert isinstance(failure_of(chunks), BackendBroken)
    reader = StreamReader(ENDPOINT, NAMES)
    assert isinstance(failure_of(reader.lost(BackendTimeout())), BackendTimeout)
    assert reader.lost(BackendTimeout()) == []


def test_the_done_marker_ends_the_stream() -> None:
    assert read(text_event("a"), b"[DONE]") == [TextDelta("a"), STOP]
    assert read(text_event("a"), ended(), b"[DONE]", text_event("b"), b"nonsense") == [TextDelta("a"), STOP]
    assert isinstance(failure_of(read(event("error", error={"message": "x"}), b"[DONE]")), BackendRefused)
    reader = StreamReader(ENDPOINT, NAMES)
    assert reader.end([ended()]) == [STOP]
    assert reader.complete


@pytest.mark.parametrize(
    "payload",
    [
        b"nonsense",
        b"[1]",
        b'{"choices":[{"delta":{"content":"chat"}}]}',
        b'{"type":"response.output_item.done","item":[]}',
        b'{"type":"response.completed","response":{"output":[{"type":"shell_call"}]}}',
        b'{"type":"response.output_text.delta","delta":"\\ud800"}',
    ],
)
def test_an_invalid_response_object_is_a_failure(payload: bytes) -> None:
    error = failure_of(read(payload))
    assert isinstance(error, BackendBroken)
    assert "no response" in error.message


@pytest.mark.parametrize("kind", ["keepalive", "response.ping", "response.queued", "response.new.delta", "x"])
def test_unknown_events_are_ignored(kind: str) -> None:
    assert read(event(kind, delta="x"), ended()) == [STOP]


def test_an_invalid_response_body() -> None:
    for body in (b"{}", b"nothing", b"[]", b'{"object":"list"}'):
        chunks = StreamReader(ENDPOINT, NAMES).read_body(body)
        assert isinstance(failure_of(chunks), BackendBroken)
    assert isinstance(failure_of(read_complete(status="in_progress", output=[])), BackendRefused)
    assert (
        failure_of(read_complete(error={"message": "m", "code": "invalid_prompt"})).code == "invalid_prompt"
    )
    assert read_complete(output=[message("a")]) == [TextDelta("a"), ItemBegun(), STOP]


EVENTS = st.sampled_from(
    [
        text_event("a"),
        text_event("b", "msg_2", 1),
        text_event("c", "msg_1", 1),
        added(message("")),
        added(call()),
        added(reasoning(), 2),
        write("{}"),
        write("1", "fc_9", 7),
        done(message("ab")),
        done(message("x"), None),
        done(call("{}")),
        done(reasoning(encrypted_content="e"), 2),
        event("response.reasoning_text.delta", delta="r"),
        event("response.output_text.done", text="abc"),
        event("response.content_part.done", part={"type": "output_text", "text": "zz"}),
        ended(message("abc"), call("{}")),
        b"[DONE]",
        b"nonsense",
    ]
)


@given(st.lists(EVENTS, max_size=12))
def test_any_order_of_events_has_one_end(payloads: list[bytes]) -> None:
    chunks = read(*payloads)
    assert isinstance(chunks[-1], Finished | Failed)
    assert not any(isinstance(chunk, Finished | Failed) for chunk in chunks[:-1])
