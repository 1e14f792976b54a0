"""Seed 004: one method for a single answer, one for a turn."""

from typing import Any

import pytest

from antiphon.errors import BackendBroken, BackendError, BackendRefused, InvalidRequest, ResponsesCallFailed
from antiphon.orchestrator import parts
from antiphon.orchestrator.provider import Provider, TurnResult
from antiphon.orchestrator.tool import Tool, ToolCall
from tests.orchestrator.fake_responses import FakeResponsesClient, function_call, message, response

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = Tool("get_weather", "The weather.", PARAMETERS)
DECLARED = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": PARAMETERS,
}
HELLO = response(message("Hello."))


def provider(*answers: Any, **settings: Any) -> tuple[Provider, FakeResponsesClient]:
    client = FakeResponsesClient(*(answers or (HELLO,)))
    options: dict[str, Any] = {"model": "m", **settings}
    return Provider(client, **options), client


@pytest.mark.requirement("SEED-004/surface-one-shot", "SEED-004/plan-one-shot")
async def test_a_single_answer_sends_instructions_and_a_message_without_tools() -> None:
    provided, client = provider()
    assert await provided.generate_response("Be kind.", "Hi") == "Hello."
    assert client.bodies == [{"model": "m", "instructions": "Be kind.", "input": "Hi", "store": True}]


@pytest.mark.requirement("SEED-004/surface-one-shot")
async def test_empty_instructions_are_not_sent() -> None:
    provided, client = provider()
    await provided.generate_response("", "Hi")
    assert "instructions" not in client.bodies[0]


@pytest.mark.requirement("SEED-004/surface-turn-first", "SEED-004/flow-first-turn")
async def test_a_first_turn_sends_the_input_and_the_tools() -> None:
    provided, client = provider(temperature=0.7, max_output_tokens=10240)
    await provided.generate_responses_turn(None, "Hi", [WEATHER], None)
    assert client.bodies == [
        {
            "model": "m",
            "input": "Hi",
            "tools": [DECLARED],
            "temperature": 0.7,
            "max_output_tokens": 10240,
            "store": True,
        }
    ]


@pytest.mark.requirement(
    "SEED-004/surface-turn-continued", "SEED-004/flow-continued", "SEED-004/flow-outputs"
)
async def test_a_further_turn_sends_the_outputs_in_the_order_of_the_calls_and_no_tools() -> None:
    provided, client = provider(temperature=0.7, max_output_tokens=10240)
    outputs = {"call_b": "rain", "call_a": "sun"}
    await provided.generate_responses_turn("resp_0", None, [WEATHER], outputs)
    assert client.bodies == [
        {
            "model": "m",
            "previous_response_id": "resp_0",
            "input": [
                {"type": "function_call_output", "call_id": "call_b", "output": "rain"},
                {"type": "function_call_output", "call_id": "call_a", "output": "sun"},
            ],
            "temperature": 0.7,
            "max_output_tokens": 10240,
            "store": True,
        }
    ]


@pytest.mark.requirement("SEED-004/surface-turn-continued")
@pytest.mark.parametrize("none", [None, {}])
async def test_a_further_turn_without_outputs_has_an_empty_input(none: Any) -> None:
    provided, client = provider()
    await provided.generate_responses_turn("resp_0", None, None, none)
    assert client.bodies[0]["input"] == []


@pytest.mark.requirement("SEED-004/surface-turn-continued")
@pytest.mark.parametrize("user_message", ["And Rome?", [parts.text("And Rome?")]])
async def test_a_message_of_a_further_turn_follows_its_outputs(user_message: Any) -> None:
    provided, client = provider()
    await provided.generate_responses_turn("resp_0", user_message, None, {"call_a": "sun"})
    assert client.bodies[0]["input"] == [
        {"type": "function_call_output", "call_id": "call_a", "output": "sun"},
        {"type": "message", "role": "user", "content": user_message},
    ]


@pytest.mark.requirement("SEED-004/surface-turn-continued")
async def test_a_further_turn_may_be_a_message_without_outputs() -> None:
    provided, client = provider()
    await provided.generate_responses_turn("resp_0", "And Rome?", None, None)
    assert client.bodies[0] == {
        "model": "m",
        "previous_response_id": "resp_0",
        "input": "And Rome?",
        "store": True,
    }


async def test_unstored_responses_cannot_be_continued() -> None:
    provided, client = provider(store=False)
    with pytest.raises(InvalidRequest, match="use store=True") as caught:
        await provided.generate_responses_turn("resp_0", None, None, {"call_a": "sun"})
    assert caught.value.param == "previous_response_id"
    assert client.bodies == []


@pytest.mark.requirement("SEED-004/surface-turn-empty-id")
@pytest.mark.parametrize("empty", [None, ""])
async def test_an_empty_id_starts_and_empty_members_are_absent(empty: str | None) -> None:
    provided, client = provider(tool_choice="get_weather")
    await provided.generate_responses_turn(
        previous_response_id=empty, user_input="Hi", tools=[], function_outputs={}
    )
    assert client.bodies == [{"model": "m", "input": "Hi", "store": True}]


async def test_a_first_turn_without_input_is_rejected() -> None:
    provided, client = provider()
    with pytest.raises(InvalidRequest) as caught:
        await provided.generate_responses_turn(None, "", [WEATHER], None)
    assert caught.value.param == "user_input"
    assert client.bodies == []


@pytest.mark.parametrize("empty_message", ["", []])
async def test_an_empty_message_is_rejected(empty_message: Any) -> None:
    provided, client = provider()
    with pytest.raises(InvalidRequest) as caught:
        await provided.generate_response("", empty_message)
    assert caught.value.param == "message"
    assert client.bodies == []


@pytest.mark.requirement(
    "SEED-004/surface-turn-result", "SEED-004/types-tool-call", "SEED-004/testing-parsing"
)
async def test_a_turn_returns_the_text_the_calls_and_the_id() -> None:
    answer = response(
        {"type": "reasoning", "summary": []},
        message("Let me see. "),
        function_call("call_a", "get_weather", '{"city": "Paris"}'),
        function_call("call_b", "get_weather", '{"city":"Rome"'),
        id="resp_7",
    )
    provided, _ = provider(answer)
    text, calls, response_id = await provided.generate_responses_turn(None, "Hi", [WEATHER], None)
    assert (text, response_id) == ("Let me see.", "resp_7")
    assert calls == [
        ToolCall("call_a", "get_weather", '{"city": "Paris"}'),
        ToolCall("call_b", "get_weather", '{"city":"Rome"'),
    ]


@pytest.mark.requirement("SEED-004/testing-parsing")
async def test_calls_without_an_id_or_a_name_are_dropped_and_objects_are_encoded() -> None:
    nameless, idless = function_call("call_a", ""), {**function_call("", "get_weather"), "id": ""}
    answer = response(nameless, idless, function_call("call_c", "get_weather", {"city": "Rome"}))
    provided, _ = provider(answer)
    result = await provided.generate_responses_turn(None, "Hi", [WEATHER], None)
    assert result == TurnResult("", [ToolCall("call_c", "get_weather", '{"city":"Rome"}')], "resp_1")


@pytest.mark.requirement("SEED-004/goals-minimal-surface")
def test_a_provider_offers_two_calls() -> None:
    offered = [name for name in dir(Provider) if not name.startswith("_")]
    assert offered == ["generate_response", "generate_responses_turn"]


@pytest.mark.requirement("SEED-004/goals-memory")
async def test_responses_are_stored_by_default() -> None:
    provided, client = provider(store=False)
    await provided.generate_response("", "Hi")
    assert client.bodies[0]["store"] is False


async def test_the_servers_default_model_is_requested_once() -> None:
    provided, client = provider(model=None)
    await provided.generate_response("", "Hi")
    await provided.generate_response("", "Hi")
    assert [body["model"] for body in client.bodies] == ["first", "first"]
    assert client.model_requests == 1


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("get_weather", {"type": "function", "name": "get_weather"}),
        ({"type": "function", "name": "get_weather"}, {"type": "function", "name": "get_weather"}),
    ],
)
async def test_a_tool_can_be_demanded_of_first_turns(choice: Any, sent: Any) -> None:
    provided, client = provider(tool_choice=choice)
    await provided.generate_responses_turn(None, "Hi", [WEATHER], None)
    await provided.generate_responses_turn("resp_1", None, None, {})
    assert [body.get("tool_choice") for body in client.bodies] == [sent, None]


@pytest.mark.requirement("SEED-004/why-built-in-tools")
async def test_tools_of_the_models_server_are_declared_as_they_are() -> None:
    provided, client = provider()
    search = {"type": "file_search", "vector_store_ids": ["vs_1"]}
    await provided.generate_responses_turn(None, "Hi", [search, WEATHER], None)
    assert client.bodies[0]["tools"] == [search, DECLARED]


@pytest.mark.requirement("SEED-004/why-multi-modal")
async def test_images_and_documents_are_sent_with_text() -> None:
    provided, client = provider()
    user_message = [
        parts.text("What is this?"),
        parts.image("https://example.com/a.png"),
        parts.pdf(b"%PDF-1.7"),
    ]
    await provided.generate_response("", user_message)
    await provided.generate_responses_turn(None, user_message, None, None)
    for body in client.bodies:
        assert body["input"] == [{"type": "message", "role": "user", "content": user_message}]
    assert [part["type"] for part in user_message] == ["input_text", "input_image", "input_file"]


@pytest.mark.requirement("SEED-004/structured-format", "SEED-004/pitfalls-strict")
async def test_a_schema_is_sent_as_the_strict_format_of_the_text() -> None:
    provided, client = provider(response(message('{"a": 1}')))
    schema = {"name": "HardenBounty", "schema": {"type": "object"}, "description": "Hardened."}
    assert await provided.generate_response("", "Hi", schema=schema) == '{"a": 1}'
    assert client.bodies[0]["text"] == {
        "format": {
            "type": "json_schema",
            "name": "HardenBounty",
            "schema": {"type": "object"},
            "strict": True,
            "description": "Hardened.",
        }
    }
    assert "tools" not in client.bodies[0]


def cut_off(text: str, reason: str) -> Any:
    return response(message(text), status="incomplete", incomplete_details={"reason": reason})


@pytest.mark.requirement("SEED-004/structured-whole")
@pytest.mark.parametrize(
    ("reason", "user_message"),
    [("max_output_tokens", "more output tokens"), ("content_filter", r"incomplete \(content_filter\)")],
)
async def test_truncated_json_is_an_error_and_truncated_text_is_not(reason: str, user_message: str) -> None:
    provided, _ = provider(cut_off('{"a": 1}', reason))
    assert await provided.generate_response("", "Hi") == '{"a": 1}'
    with pytest.raises(BackendBroken, match=user_message):
        await provided.generate_response("", "Hi", schema={"type": "object"})


@pytest.mark.requirement("SEED-004/surface-turn-error")
async def test_an_answer_truncated_before_its_first_text_is_an_error() -> None:
    provided, _ = provider(cut_off(" ", "max_output_tokens"))
    with pytest.raises(BackendBroken, match="more output tokens"):
        await provided.generate_response("", "Hi")


@pytest.mark.requirement("SEED-004/structured-whole")
@pytest.mark.parametrize(
    ("text", "user_message"),
    [("Sure! {}", "not valid JSON: Sure! {}"), ("", "it is empty"), ('{"a":', 'not valid JSON: {"a":')],
)
async def test_an_answer_that_is_no_json_is_an_error_where_json_is_required(
    text: str, user_message: str
) -> None:
    provided, _ = provider(response(message(text)))
    with pytest.raises(BackendBroken, match=user_message):
        await provided.generate_response("", "Hi", schema={"type": "object"})


@pytest.mark.requirement("SEED-004/surface-turn-error")
@pytest.mark.parametrize("status", ["cancelled", "in_progress", "queued", "paused"])
async def test_a_response_that_has_not_ended_is_an_error(status: str) -> None:
    provided, _ = provider(response(message("So far."), status=status))
    with pytest.raises(BackendBroken, match=f"the response is '{status}'"):
        await provided.generate_response("", "Hi")
    with pytest.raises(BackendBroken, match=status):
        await provided.generate_responses_turn(None, "Hi", None, None)


async def test_a_server_may_omit_the_status() -> None:
    provided, _ = provider(response(message("Hello."), status=None))
    assert await provided.generate_response("", "Hi") == "Hello."


@pytest.mark.requirement("SEED-004/surface-turn-error")
async def test_a_response_that_failed_is_raised_with_its_message() -> None:
    failed = response(status="failed", error={"code": "server_error", "message": "Out of memory."})
    provided, _ = provider(failed)
    with pytest.raises(BackendError, match="Out of memory") as caught:
        await provided.generate_response("", "Hi")
    assert caught.value.code == "server_error"


REFUSED = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}


async def test_a_refusal_of_the_model_is_an_error() -> None:
    provided, _ = provider(response(message("Well."), REFUSED))
    with pytest.raises(BackendRefused, match=r"The model refused: I will not\.") as caught:
        await provided.generate_response("", "Hi")
    assert (caught.value.status, caught.value.code, caught.value.retryable) == (422, "refusal", False)


async def test_in_a_turn_a_refusal_is_text() -> None:
    provided, _ = provider(response(REFUSED, function_call("call_a", "get_weather")))
    result = await provided.generate_responses_turn(None, "Hi", [WEATHER], None)
    assert result == TurnResult("I will not.", [ToolCall("call_a", "get_weather", "{}")], "resp_1")


async def test_a_text_about_a_refusal_is_no_refusal() -> None:
    provided, _ = provider(response(message('a "refusal" is a type')))
    assert await provided.generate_response("", "Hi") == 'a "refusal" is a type'


@pytest.mark.requirement("SEED-004/surface-turn-error")
async def test_a_refusal_of_the_server_is_passed_on() -> None:
    failure = ResponsesCallFailed("Too fast.", status=429, body=b"{}")
    provided, _ = provider(failure)
    with pytest.raises(ResponsesCallFailed) as caught:
        await provided.generate_responses_turn(None, "Hi", None, None)
    assert caught.value is failure


@pytest.mark.parametrize("answer", [{"choices": []}, {"id": "resp_1"}, response(id="")])
async def test_an_invalid_response_object_is_an_error(answer: Any) -> None:
    provided, _ = provider(answer)
    with pytest.raises(BackendError):
        await provided.generate_responses_turn(None, "Hi", None, None)
