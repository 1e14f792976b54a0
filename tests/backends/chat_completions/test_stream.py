"""Upstream payloads to chunks: unusual deltas, and any split of the bytes."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.registry import Quirks, default_endpoint
from antiphon.errors import BackendBroken, BackendRefused, BackendTimeout
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.protocol.sse import SseReader
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    UsageReported,
)
from tests.backends.chat_completions.test_golden import FOLDER

ENDPOINT = default_endpoint("plain")


def delta(members: dict[str, Any] | None = None, **choice: Any) -> bytes:
    return msgspec.json.encode({"choices": [{"index": 0, "delta": members or {}, **choice}]})


def call(**members: Any) -> bytes:
    function = {key: members.pop(key) for key in ("name", "arguments") if key in members}
    return delta({"tool_calls": [{**members, "function": function}]})


def read(*payloads: bytes, quirks: Quirks | None = None) -> list[Chunk]:
    reader = StreamReader(replace(ENDPOINT, quirks=quirks) if quirks else ENDPOINT)
    return reader.feed(payloads) + reader.end()


def calls_of(chunks: list[Chunk]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of every call."""
    found: dict[int, tuple[str, str, str]] = {}
    for chunk in chunks:
        if isinstance(chunk, CallStarted):
            found[chunk.index] = (chunk.call_id, chunk.name, "")
        elif isinstance(chunk, CallDelta):
            call_id, name, arguments = found[chunk.index]
            found[chunk.index] = (call_id, name, arguments + chunk.arguments)
    return list(found.values())


def failure_of(chunks: list[Chunk]) -> Exception:
    last = chunks[-1]
    assert isinstance(last, Failed)
    return last.error


def test_text_is_passed_on_as_it_is() -> None:
    found = read(delta({"role": "assistant", "content": ""}), delta({"content": "a\u2028b"}), b"[DONE]")
    assert found == [TextDelta("a\u2028b"), Finished("stop")]


def test_numbers_may_be_strings() -> None:
    found = read(b'{"choices":[{"index":"0","delta":{"content":"null"}}]}', b"[DONE]")
    assert found == [TextDelta("null"), Finished("stop")]


def test_other_choices_are_ignored() -> None:
    second = msgspec.json.encode({"choices": [{"index": 1, "delta": {"content": "no"}}]})
    assert read(second, b"[DONE]") == [Finished("stop")]


@pytest.mark.parametrize("payload", [b"{}", b'{"type":"ping"}', b'{"choices":[]}', b'{"choices":null}'])
def test_payloads_without_content_are_ignored(payload: bytes) -> None:
    assert read(payload, b" [DONE] ") == [Finished("stop")]


@pytest.mark.parametrize("payload", [b"ping", b"[]", b'"x"', b"{", b'{"choices":7}', b"\xff", b"[" * 100_000])
def test_garbage_is_a_failure(payload: bytes) -> None:
    error = failure_of(read(delta({"content": "a"}), payload))
    assert isinstance(error, BackendBroken)
    assert len(error.message) < 300


def test_garbage_after_a_complete_answer_does_no_harm() -> None:
    assert read(delta(finish_reason="stop"), b"ping") == [Finished("stop")]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "stop"),
        ("anything", "stop"),
    ],
)
def test_reasons_are_ours(reason: str, expected: str) -> None:
    assert read(delta(finish_reason=reason))[-1] == Finished(expected)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_error_finish_reasons_are_failures(reason: str) -> None:
    error = failure_of(read(delta({"content": "a"}), delta(finish_reason=reason)))
    assert isinstance(error, BackendRefused)
    assert error.retryable


def test_a_later_finish_reason_wins_and_text_after_the_first_is_emitted() -> None:
    found = read(
        delta({"content": "a"}, finish_reason="stop"), delta({"content": "b"}, finish_reason="length")
    )
    assert found == [TextDelta("a"), TextDelta("b"), Finished("length")]


def test_an_empty_finish_reason_is_ignored() -> None:
    assert isinstance(failure_of(read(delta({"content": "a"}, finish_reason=""))), BackendBroken)


def test_no_chunks_follow_the_end() -> None:
    reader = StreamReader(ENDPOINT)
    assert reader.feed([b"[DONE]"]) == [Finished("stop")]
    assert reader.feed([delta({"content": "a"}), b"[DONE]", b"?"]) == []
    assert reader.end() == []
    assert reader.lost(BackendTimeout()) == []
    assert (reader.over, reader.complete, reader.finishing) == (True, True, False)


def test_a_disconnect_after_the_finish_reason_is_no_failure() -> None:
    reader = StreamReader(ENDPOINT)
    reader.feed([delta({"content": "a"}, finish_reason="stop")])
    assert reader.finishing
    assert reader.lost(BackendTimeout()) == [Finished("stop")]


def test_a_loss_before_the_reason_is_a_failure() -> None:
    reader = StreamReader(ENDPOINT)
    reader.feed([delta({"content": "a"})])
    assert isinstance(failure_of(reader.lost(BackendTimeout())), BackendTimeout)
    assert (reader.over, reader.complete) == (True, False)


def test_usage_is_reported_once_and_the_last_report_counts() -> None:
    def usage(count: int | None) -> bytes:
        return msgspec.json.encode({"choices": [], "usage": {"completion_tokens": count}})

    found = read(usage(1), usage(None), usage(2), b"[DONE]")
    expected = Usage(0, InputTokensDetails(0), 2, OutputTokensDetails(0), 2)
    assert found == [UsageReported(expected), Finished("stop")]


def test_usage_is_reported_even_if_the_answer_fails() -> None:
    report = b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}'
    found = read(report, b'{"error":{"message":"x"}}')
    assert [type(chunk) for chunk in found] == [UsageReported, Failed]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"error":{"message":"slow down","code":429}}',
        b'{"error":"slow down"}',
        b'{"object":"error","message":"slow down","code":429}',
        b'{"detail":"slow down"}',
        b'{"choices":[{"index":0,"delta":{},"error":{"message":"slow down"}}]}',
    ],
)
def test_errors_in_a_stream_are_failures_with_the_upstreams_message(payload: bytes) -> None:
    error = failure_of(read(delta({"content": "a"}), payload, delta({"content": "b"})))
    assert "slow down" in str(error)


def test_text_in_the_same_delta_as_an_error_is_emitted_first() -> None:
    payload = b'{"error":{"message":"x"},"choices":[{"index":0,"delta":{"content":"a"}}]}'
    assert [type(chunk) for chunk in read(payload)] == [TextDelta, Failed]


def test_a_name_may_come_late() -> None:
    found = read(call(index=0, id="c", arguments='{"a"'), call(index=0, name="f", arguments=":1}"), b"[DONE]")
    assert calls_of(found) == [("c", "f", '{"a":1}')]


def test_deltas_without_index_and_id_belong_to_the_last_call() -> None:
    found = read(call(id="c", name="f"), call(arguments="{"), call(arguments="}"), b"[DONE]")
    assert calls_of(found) == [("c", "f", "{}")]


def test_a_repeated_name_is_no_new_call_while_the_arguments_are_incomplete() -> None:
    found = read(*(call(index=0, name="f", arguments=part) for part in ('{"a"', ":", "1}")), b"[DONE]")
    assert calls_of(found) == [("", "f", '{"a":1}')]


def test_a_repeated_name_without_arguments_is_no_new_call() -> None:
    found = read(call(index=0, name="f", arguments="{}"), call(index=0, name="f", arguments=""), b"[DONE]")
    assert calls_of(found) == [("", "f", "{}")]


def test_arguments_that_only_look_complete_are_continued() -> None:
    found = read(
        call(index=0, name="f", arguments='{"a":{}'), call(index=0, name="f", arguments="}"), b"[DONE]"
    )
    assert calls_of(found) == [("", "f", '{"a":{}}')]


def test_a_new_call_at_an_index_finishes_the_earlier_call() -> None:
    found = read(call(index=0, id="a", name="f", arguments="{}"), call(index=0, id="b", name="g"), b"[DONE]")
    assert CallFinished(0) in found
    assert calls_of(found) == [("a", "f", "{}"), ("b", "g", "")]


def test_an_answer_with_calls_finishes_with_tool_calls_whatever_the_reason() -> None:
    assert read(call(index=0, id="a", name="f"), delta(finish_reason="stop"))[-1] == Finished("tool_calls")


def test_held_text_is_emitted_before_a_call() -> None:
    found = read(delta({"content": "<"}), call(index=0, id="a", name="f"), b"[DONE]")
    assert found[0] == TextDelta("<")


def test_a_template_may_have_opened_the_thinking() -> None:
    found = read(delta({"content": "hm</think>yes"}), b"[DONE]", quirks=Quirks(think_open=True))
    assert found == [ReasoningDelta("hm"), TextDelta("yes"), Finished("stop")]


def test_thinking_may_be_a_string_in_a_list() -> None:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}, {"type": "reference"}]
    assert read(delta({"content": content}), b"[DONE]")[:2] == [ReasoningDelta("hm"), TextDelta("yes")]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{}", b'{"choices":[]}', b'{"choices":[{"index":0}]}', b"<html>"]
)
def test_an_invalid_completion_body_is_a_failure(body: bytes) -> None:
    reader = StreamReader(ENDPOINT)
    assert isinstance(failure_of(reader.read_body(body)), BackendBroken)


def test_an_error_may_come_with_a_good_status() -> None:
    error = failure_of(StreamReader(ENDPOINT).read_body(b'{"error":{"message":"no credit","code":402}}'))
    assert isinstance(error, BackendRefused)
    assert error.code == "upstream_auth_error"


STREAMS = sorted(path.read_bytes() for path in FOLDER.glob("*/upstream.sse"))


def shape(chunks: list[Chunk]) -> list[Any]:
    """The chunks, with adjacent text and arguments joined."""
    joined: list[Any] = []
    for chunk in chunks:
        last: Any = joined[-1] if joined else None
        if isinstance(chunk, TextDelta | ReasoningDelta) and type(last) is type(chunk):
            joined[-1] = type(chunk)(last.text + chunk.text)
        elif isinstance(chunk, CallDelta) and isinstance(last, CallDelta) and last.index == chunk.index:
            joined[-1] = CallDelta(chunk.index, last.arguments + chunk.arguments)
        elif isinstance(chunk, Failed):
            joined.append(str(chunk.error))
        else:
            joined.append(chunk)
    return joined


@given(st.sampled_from(STREAMS), st.data())
def test_any_split_of_the_bytes_yields_the_same_chunks(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=40)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    def run(parts: list[bytes]) -> list[Any]:
        sse, reader = SseReader(), StreamReader(ENDPOINT)
        chunks = [chunk for part in parts for chunk in reader.feed(sse.feed(part))]
        return shape(chunks + reader.end(sse.finish()))

    assert run(pieces) == run([stream])
