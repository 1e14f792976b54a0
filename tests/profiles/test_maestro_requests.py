"""The `maestro` profile's requests: rejected params, ignored params, and continued conversations."""

from typing import Any

import pytest

from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.registry import ENDPOINTS
from antiphon.turn.chunks import Finished, ReasoningSummaryDelta, TextDelta
from tests.profiles.gateway import LOOK, call, gateway, refusal_of

JsonObject = dict[str, Any]

STATE: JsonObject = {"previous_response_id": "resp_1", "conversation": "conv_1"}


@pytest.mark.requirement("SEED-002/flow-validate", "SEED-002/errors-validation")
@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({**STATE}, "previous_response_id", "unsupported_parameter"),
        ({"conversation": {"id": "conv_1"}}, "conversation", "unsupported_parameter"),
        ({}, "model", "missing_required_parameter"),
        ({"model": None, "input": "hi"}, "model", "missing_required_parameter"),
        ({"model": "m"}, "input", "missing_required_parameter"),
        ({"model": "m", "input": ""}, "input", "missing_required_parameter"),
        ({"model": "m", "input": None, "instructions": None}, "input", "missing_required_parameter"),
        ({"model": "nobody"}, "input", "missing_required_parameter"),
        ({"model": "m", "input": "hi", **STATE}, "previous_response_id", "unsupported_parameter"),
        ({"model": "nobody", "input": "hi", "previous_response_id": 5}, "previous_response_id", "unsupported_parameter"),
        ({"model": "m", "input": "hi", "conversation": 5}, "conversation", "unsupported_parameter"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("others", [{}, {"temperature": "hot", "tools": 5}], ids=["alone", "among-others"])
async def test_requests_are_checked_in_the_order_of_the_document(
    body: JsonObject, param: str, code: str, others: JsonObject
) -> None:
    async with gateway("maestro") as model:
        status, error = refusal_of(await model.send({**body, **others}))
        assert (status, error["param"], error["code"]) == (400, param, code)
        assert error["type"] == "invalid_request_error"
        assert model.backend.turns == []


async def test_other_parameters_are_checked_after_that() -> None:
    async with gateway("maestro") as model:
        status, error = await model.refusal(temperature="hot")
        assert (status, error["param"]) == (400, "temperature")


async def test_state_that_is_null_is_not_there() -> None:
    async with gateway("maestro") as model:
        await model.answer(previous_response_id=None, conversation=None)


@pytest.mark.requirement(
    "SEED-002/state-way-out", "SEED-002/state-previous-response-id", "SEED-002/state-conversation"
)
@pytest.mark.parametrize("parameter", sorted(STATE))
async def test_stateful_requests_are_told_to_send_the_full_history(parameter: str) -> None:
    async with gateway("maestro") as model:
        status, error = await model.refusal(**{parameter: STATE[parameter]})
        assert status == 400
        assert "full" in error["message"]
        assert "history" in error["message"]
        assert "'input'" in error["message"] or "`input`" in error["message"]


@pytest.mark.requirement("SEED-002/state-item-reference")
async def test_a_reference_to_an_item_is_rejected_with_the_advice_to_include_the_item() -> None:
    async with gateway("maestro") as model:
        items = [{"role": "user", "content": "hi"}, {"type": "item_reference", "id": "msg_1"}]
        status, error = await model.refusal(input=items)
        assert (status, error["param"], error["code"]) == (400, "input[1]", "unsupported_parameter")
        assert "item itself" in error["message"]
        assert model.backend.turns == []


@pytest.mark.requirement("SEED-002/state-stateless", "SEED-002/ignored-store")
@pytest.mark.parametrize("store", [{}, {"store": True}, {"store": False}], ids=["unsaid", "true", "false"])
async def test_no_response_is_stored(store: JsonObject) -> None:
    async with gateway("maestro") as model:
        fresh = await model.answer(**store)
        assert (await model.client.get(f"/v1/responses/{fresh['id']}")).status_code == 404
        streamed = await model.stream(**store)
        assert (await model.client.get(f"/v1/responses/{streamed.final['id']}")).status_code == 404


@pytest.mark.requirement(
    "SEED-002/state-full-history",
    "SEED-002/input-assistant",
    "SEED-002/content-output-text",
    "SEED-002/input-function-call",
    "SEED-002/input-function-call-output",
)
async def test_a_conversation_is_continued_with_its_full_history() -> None:
    model_chunks = [TextDelta("Wait."), *call(0, '{"at":"sea"}'), Finished("tool_calls")]
    async with gateway("maestro", *model_chunks) as model:
        first = await model.answer(tools=[LOOK])
        output = {"type": "function_call_output", "call_id": "call_0", "output": "blue"}
        await model.answer(input=[{"role": "user", "content": "hi"}, *first["output"], output], tools=[LOOK])
        user, assistant, result = model.messages
        assert user == {"role": "user", "content": "hi"}
        assert (assistant["role"], assistant["content"]) == ("assistant", "Wait.")
        assert [one["function"] for one in assistant["tool_calls"]] == [
            {"name": "look", "arguments": '{"at":"sea"}'}
        ]
        assert result == {"role": "tool", "tool_call_id": "call_0", "content": "blue"}


IGNORED = ["store", "include", "background", "prompt", "prompt_cache_key", "service_tier", "user", "safety_identifier"]  # fmt: skip


@pytest.mark.requirement(
    "SEED-002/ignored-store",
    "SEED-002/ignored-include",
    "SEED-002/ignored-background",
    "SEED-002/ignored-prompt-cache-key",
    "SEED-002/ignored-service-tier",
)
@pytest.mark.parametrize("name", IGNORED)
@pytest.mark.parametrize(
    "value", [True, 7, "any", ["any"], {"id": "any"}], ids=lambda value: type(value).__name__
)
async def test_an_ignored_parameter_is_taken_with_any_value_and_has_no_effect(name: str, value: Any) -> None:
    async with gateway("maestro") as model:
        plain = await model.answer()
        body = model.chat_body
        ignoring = await model.answer(**{name: value})
        assert model.chat_body == body
        generated_members = {"id", "created_at", "completed_at", "output"}
        assert {key for key in plain if plain[key] != ignoring.get(key)} <= generated_members
        assert set(ignoring) - set(plain) == {"downgrades"}
        assert ignoring["downgrades"] == [f"not used in the profile 'maestro': {name}"]
        assert ignoring["status"] == "completed"


@pytest.mark.requirement("SEED-002/ignored-background")
async def test_a_stream_with_background_is_a_plain_stream() -> None:
    async with gateway("maestro") as model:
        assert (await model.stream(background=True)).kinds[:2] == ["created", "in_progress"]


@pytest.mark.requirement("SEED-002/ignored-reasoning-effort", "SEED-002/comparison-reasoning")
async def test_the_effort_of_reasoning_is_passed_through() -> None:
    async with gateway("maestro") as model:
        await model.answer(reasoning={"effort": "high", "summary": "auto"})
        assert build_payload(model.turn, ENDPOINTS["openai"].quirks).body["reasoning_effort"] == "high"


@pytest.mark.requirement("SEED-002/ignored-reasoning-generate-summary", "SEED-002/limits-reasoning")
async def test_a_requested_reasoning_summary_is_not_shown() -> None:
    async with gateway("maestro", ReasoningSummaryDelta("hm"), TextDelta("a"), Finished("stop")) as model:
        response = await model.answer(reasoning={"generate_summary": "auto"})
        assert [item["type"] for item in response["output"]] == ["message"]
