"""Codex's notifications about a turn, and the chunks that they become."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from antiphon.backends.codex_app_server.stream import Call, StreamReader
from antiphon.errors import BackendBroken, BackendRefused
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Finished,
    ReasoningDelta,
    ReasoningSummaryDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnTool

COST = {
    "totalTokens": 15,
    "inputTokens": 10,
    "cachedInputTokens": 2,
    "outputTokens": 5,
    "reasoningOutputTokens": 1,
}


def raw(**params: Any) -> Raw:
    return Raw(msgspec.json.encode({"threadId": "t", "turnId": "turn", **params}))


def reader() -> StreamReader:
    return StreamReader("turn", {"look": TurnTool(name="look", origin="look")})


def feed(reader: StreamReader, *messages: tuple[str, dict[str, Any]]) -> list[Chunk]:
    return [chunk for method, params in messages for chunk in reader.notified(method, raw(**params))]


def delta(text: str, item: str = "m1") -> tuple[str, dict[str, Any]]:
    return "item/agentMessage/delta", {"itemId": item, "delta": text}


def completed_message(text: str, item: str = "m1") -> tuple[str, dict[str, Any]]:
    return "item/completed", {"item": {"type": "agentMessage", "id": item, "text": text, "phase": None}}


def model_item(**item: Any) -> tuple[str, dict[str, Any]]:
    return "rawResponseItem/completed", {"item": item}


def model_done(usage: Any = COST) -> tuple[str, dict[str, Any]]:
    return "rawResponse/completed", {"responseId": "r", "usage": usage}


def call(call_id: str, name: str = "look", arguments: str = "{}") -> tuple[str, dict[str, Any]]:
    return model_item(type="function_call", call_id=call_id, name=name, arguments=arguments)


def trouble(will_retry: bool = True, **params: Any) -> tuple[str, dict[str, Any]]:
    error = {"message": "Reconnecting... 1/2", "codexErrorInfo": None, "additionalDetails": None}
    return "error", {"error": error, "willRetry": will_retry, **params}


def completed(status: str = "completed", error: Any = None) -> tuple[str, dict[str, Any]]:
    return "turn/completed", {"turn": {"id": "turn", "status": status, "error": error, "items": []}}


def test_deltas_are_emitted_and_the_complete_text_is_not_repeated() -> None:
    assert feed(reader(), delta("a"), delta("b"), completed_message("ab")) == [TextDelta("a"), TextDelta("b")]


def test_a_text_without_deltas_is_emitted() -> None:
    assert feed(reader(), completed_message("ab")) == [TextDelta("ab")]


def test_several_messages_are_parted_by_a_blank_line() -> None:
    assert feed(reader(), delta("a"), delta("b", "m2"), delta("c", "m2"), completed_message("d", "m3")) == [
        TextDelta("a"),
        TextDelta("\n\nb"),
        TextDelta("c"),
        TextDelta("\n\nd"),
    ]


def test_reasoning_is_emitted_as_text_and_as_summary() -> None:
    assert feed(
        reader(),
        ("item/reasoning/summaryTextDelta", {"itemId": "r1", "delta": "a", "summaryIndex": 0}),
        ("item/reasoning/summaryTextDelta", {"itemId": "r1", "delta": "b", "summaryIndex": 1}),
        ("item/reasoning/textDelta", {"itemId": "r1", "delta": "c", "contentIndex": 0}),
        (
            "item/completed",
            {"item": {"type": "reasoning", "id": "r1", "summary": ["a", "b"], "content": ["c"]}},
        ),
        ("item/completed", {"item": {"type": "reasoning", "id": "r2", "summary": ["d"], "content": []}}),
    ) == [
        ReasoningSummaryDelta("a", 0),
        ReasoningSummaryDelta("b", 1),
        ReasoningDelta("c"),
        ReasoningSummaryDelta("d", 2),
    ]


def test_usage_sums_all_model_calls() -> None:
    chunks = feed(reader(), model_done(), model_done(None), model_done(), completed())
    usage = Usage(20, InputTokensDetails(4), 10, OutputTokensDetails(2), 30)
    assert chunks == [UsageReported(usage), Finished("stop")]


def test_missing_usage_is_not_invented() -> None:
    assert feed(reader(), model_done(None), completed()) == [Finished("stop")]


def test_it_waits_when_the_model_is_done_and_all_tool_calls_were_requested() -> None:
    turn = reader()
    assert feed(turn, call("c1", arguments='{ "a": 1 }'), call("c2", arguments="")) == []
    assert turn.asked(raw(callId="c2", tool="look", arguments={})) == []
    assert feed(turn, model_done(None)) == []
    assert not turn.waiting
    assert turn.asked(raw(callId="c1", tool="look", arguments={"a": 1})) == [
        CallStarted(0, "c1", "look"),
        CallDelta(0, '{ "a": 1 }'),
        CallFinished(0),
        CallStarted(1, "c2", "look"),
        CallDelta(1, "{}"),
        CallFinished(1),
        Finished("tool_calls"),
    ]
    assert turn.waiting
    assert turn.calls == [Call("c1", "look", '{ "a": 1 }'), Call("c2", "look", "{}")]


def test_after_the_outputs_a_new_response_begins_with_its_own_usage() -> None:
    turn = reader()
    feed(turn, delta("a"), call("c1"), model_done())
    turn.asked(raw(callId="c1"))
    turn.resume()
    assert not turn.waiting
    assert feed(turn, delta("b", "m2"), model_done(), completed()) == [
        TextDelta("b"),
        UsageReported(Usage(10, InputTokensDetails(2), 5, OutputTokensDetails(1), 15)),
        Finished("stop"),
    ]


def test_a_call_that_codex_answers_itself_is_not_the_clients() -> None:
    turn = reader()
    feed(turn, call("c1", arguments="{nonsense"), call("c2"), model_done(None))
    assert turn.asked(raw(callId="c2")) == []
    chunks = feed(turn, model_item(type="function_call_output", call_id="c1", output="no JSON"))
    assert [chunk.call_id for chunk in chunks if isinstance(chunk, CallStarted)] == ["c2"]


def test_calls_of_codexs_own_tools_and_of_the_history_are_not_emitted() -> None:
    turn = reader()
    earlier = raw(turnId="earlier", item={"type": "function_call", "call_id": "c0", "name": "look"})
    assert turn.notified("rawResponseItem/completed", earlier) == []
    assert feed(turn, call("c1", name="exec_command"), model_done(None)) == []
    assert not turn.waiting


def test_a_call_in_a_namespace_of_codex_is_not_the_clients() -> None:
    turn = reader()
    own = model_item(
        type="function_call", call_id="c1", name="look", namespace="collaboration", arguments="{}"
    )
    assert feed(turn, own, model_done(None)) == []
    assert not turn.calls
    plain = model_item(type="function_call", call_id="c2", name="look", namespace="functions", arguments="{}")
    feed(turn, plain)
    assert [found.call_id for found in turn.calls] == ["c2"]


def test_a_call_carries_the_clients_tool_name() -> None:
    tool = TurnTool(name="exec_command", origin="exec_command")
    turn = StreamReader("turn", {"client_exec_command": tool})
    feed(turn, call("c1", name="client_exec_command"), model_done(None))
    assert turn.asked(raw(callId="c1"))[0] == CallStarted(0, "c1", "exec_command")
    assert turn.calls == [Call("c1", "client_exec_command", "{}")]


def test_an_answer_repeated_after_a_lost_connection_is_emitted_once() -> None:
    chunks = feed(
        reader(),
        delta('{"tot'),
        trouble(),
        ("item/reasoning/textDelta", {"itemId": "r1", "delta": "hm", "contentIndex": 0}),
        delta('{"total": ', "m2"),
        delta("3}", "m2"),
        completed_message('{"total": 3}', "m2"),
        model_done(None),
        completed(),
    )
    assert chunks == [TextDelta('{"tot'), TextDelta('al": '), TextDelta("3}"), Finished("stop")]


@pytest.mark.parametrize(
    "second",
    [
        [delta("Good day", "m2")],
        [completed_message("H", "m2")],
        [model_done(None)],
        [call("c1"), model_done(None)],
    ],
)
def test_a_second_answer_that_differs_from_the_first_fails_the_turn(
    second: list[tuple[str, dict[str, Any]]],
) -> None:
    turn = reader()
    assert feed(turn, delta("Hello"), trouble(), *second, completed()) == [TextDelta("Hello")]
    assert isinstance(turn.error, BackendRefused)
    assert (turn.error.status, turn.error.code) == (502, "stream_disconnected")
    assert turn.over
    assert not turn.ended


@pytest.mark.parametrize("other", [trouble(will_retry=False), trouble(turnId="another")])
def test_other_trouble_does_not_make_codex_repeat_itself(other: tuple[str, dict[str, Any]]) -> None:
    assert feed(reader(), delta("a"), other, delta("b"), completed())[:2] == [TextDelta("a"), TextDelta("b")]


def test_silence_after_a_call_ends_the_response_with_that_call() -> None:
    turn = reader()
    feed(turn, delta("words"), call("c1"))
    assert not turn.was_asked
    assert turn.asked(raw(callId="c1")) == []
    assert turn.was_asked
    assert turn.break_off() == [
        CallStarted(0, "c1", "look"),
        CallDelta(0, "{}"),
        CallFinished(0),
        Finished("tool_calls"),
    ]
    assert (turn.over, turn.ended, turn.waiting) == (True, False, False)


def test_the_emitted_text_is_recorded() -> None:
    turn = reader()
    feed(turn, delta("a"), completed_message("a"), delta("b", "m2"), call("c1"), model_done(None))
    turn.asked(raw(callId="c1"))
    assert turn.text == "a\n\nb"
    turn.resume()
    assert (turn.text, turn.calls) == ("", [])


def test_a_call_of_an_undeclared_tool_is_an_error() -> None:
    with pytest.raises(BackendBroken, match=r"0\.166"):
        reader().asked(raw(callId="c1"))


def test_a_failed_turn_carries_its_error() -> None:
    turn = reader()
    error = {"message": "too much", "codexErrorInfo": "usageLimitExceeded", "additionalDetails": None}
    assert feed(turn, completed("failed", error)) == []
    assert turn.over
    assert isinstance(turn.error, BackendRefused)
    assert turn.error.status == 429


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_a_truncated_answer_has_not_failed(reason: str, finish: Any) -> None:
    turn = reader()
    error = {"message": f"Incomplete response returned, reason: {reason}", "codexErrorInfo": "other"}
    assert feed(turn, delta("a"), completed("failed", error)) == [TextDelta("a"), Finished(finish)]
    assert turn.error is None


def test_an_interrupted_turn_has_failed() -> None:
    turn = reader()
    feed(turn, completed("interrupted"))
    assert isinstance(turn.error, BackendBroken)


def test_unknown_notifications_are_ignored_and_invalid_ones_are_errors() -> None:
    turn = reader()
    assert feed(turn, ("thread/status/changed", {}), ("item/completed", {"item": {"type": "plan"}})) == []
    with pytest.raises(BackendBroken, match="not its protocol"):
        feed(turn, ("item/agentMessage/delta", {"itemId": 7}))
