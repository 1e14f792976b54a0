"""The `proxy` profile: rejected requests, and optional state."""

from typing import Any

import pytest

from tests.profiles.gateway import LISTEN, LOOK, gateway, refusal_of, two_calls

JsonObject = dict[str, Any]

TOOLS = {"tools": [LOOK, LISTEN]}


@pytest.mark.requirement("SEED-003/D1-n-one")
@pytest.mark.parametrize(
    ("n", "code"), [(0, "invalid_value"), (-1, "invalid_value"), ("x", "invalid_value"), (1.5, "invalid_value"),
                    ([1], "invalid_value"), (2, "n_unsupported"), (5, "n_unsupported")],
)  # fmt: skip
@pytest.mark.parametrize(
    "rest", [{"model": "m", "input": "hi"}, {}, {"model": "nobody", "previous_response_id": "r"}]
)
async def test_more_than_one_choice_is_rejected_first(n: Any, code: str, rest: JsonObject) -> None:
    async with gateway("proxy") as model:
        status, error = refusal_of(await model.send({**rest, "n": n, "temperature": "hot"}))
        assert (status, error["param"], error["code"]) == (400, "n", code)
        assert model.backend.turns == []


@pytest.mark.requirement("SEED-003/D1-n-one")
async def test_one_choice_is_fine() -> None:
    async with gateway("proxy") as model:
        assert (await model.answer(n=1))["status"] == "completed"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"background": True}, "background"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_state_and_background_are_rejected(members: JsonObject, param: str) -> None:
    async with gateway("proxy") as model:
        status, error = await model.refusal(**members)
        assert (status, error["param"]) == (400, param)
        assert model.backend.turns == []


@pytest.mark.parametrize("background", [False, None])
async def test_a_request_with_background_false_is_served(background: bool | None) -> None:
    async with gateway("proxy") as model:
        assert (await model.answer(background=background))["status"] == "completed"


async def test_responses_are_stored_only_if_the_operator_enables_it() -> None:
    async with gateway("proxy") as model:
        fresh = await model.answer()
        assert (await model.client.get(f"/v1/responses/{fresh['id']}")).status_code == 404


async def test_with_state_turns_are_chained() -> None:
    async with gateway("proxy", state=True) as model:
        first = await model.answer(input="one")
        second = await model.answer(input="two", previous_response_id=first["id"])
        assert [message["content"] for message in model.messages] == ["one", "Hello", "two"]
        stored = (await model.client.get(f"/v1/responses/{second['id']}")).json()
        assert stored["output"] == second["output"]
        reference = {"type": "item_reference", "id": second["output"][0]["id"]}
        await model.answer(input=[reference, {"role": "user", "content": "three"}])
        assert [message["content"] for message in model.messages] == ["Hello", "three"]
        status, error = await model.refusal(background=True)
        assert (status, error["param"]) == (400, "background")


async def test_with_state_a_history_with_only_calls_is_continued() -> None:
    async with gateway("proxy", *two_calls(), state=True) as model:
        first = await model.answer(**TOOLS)
        outputs = [
            {"type": "function_call_output", "call_id": one["call_id"], "output": "ok"}
            for one in first["output"][1:]
        ]
        await model.answer(input=outputs, previous_response_id=first["id"])
        assert [message["role"] for message in model.messages][-2:] == ["tool", "tool"]


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"context_management": [{"type": "compaction", "compact_threshold": 1}]}, "context_management"),
        ({"input": [{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]}, "input[1]"),
    ],
    ids=["threshold", "trigger"],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_compaction_is_rejected_in_this_layout(members: JsonObject, param: str, stream: bool) -> None:
    async with gateway("proxy", state=True) as model:
        status, error = await model.refusal(**members, stream=stream)
        assert (status, error["param"], error["code"]) == (400, param, "unsupported_parameter")
        assert model.backend.turns == []
