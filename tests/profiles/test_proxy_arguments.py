"""The `proxy` profile: the arguments of a call are a string, encoded at most once."""

from typing import Any

import pytest

from tests.profiles.gateway import LOOK, Gateway, gateway, heard, heard_deltas

JsonObject = dict[str, Any]


def called(arguments: Any) -> JsonObject:
    """A chat message with one call; `...` leaves its arguments out."""
    function = {"name": "look"} if arguments is ... else {"name": "look", "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "call_a", "type": "function", "function": function}]}


async def arguments_of(model: Gateway) -> str:
    """Of the one call, in the JSON answer; a stream must say the same in every place."""
    _, one = (await model.answer(tools=[LOOK]))["output"]
    told = await model.stream(tools=[LOOK])
    assert "".join(event["delta"] for event in told.of("function_call_arguments.delta")) == one["arguments"]
    assert [event["arguments"] for event in told.of("function_call_arguments.done")] == [one["arguments"]]
    assert told.final["output"][1]["arguments"] == one["arguments"]
    assert isinstance(one["arguments"], str)
    return one["arguments"]


@pytest.mark.requirement("SEED-003/task6-always-string")
@pytest.mark.parametrize(
    ("given", "encoded"),
    [
        pytest.param(
            '{"at": "sea"}',
            '{"at": "sea"}',
            marks=pytest.mark.requirement("SEED-003/task6-string", "SEED-003/tests-arguments-string"),
        ),
        pytest.param("not json", "not json", marks=pytest.mark.requirement("SEED-003/task6-string")),
        pytest.param(
            {"at": "sea"},
            '{"at":"sea"}',
            marks=pytest.mark.requirement("SEED-003/task6-encoded-once", "SEED-003/tests-arguments-object"),
        ),
        pytest.param(7, "7", marks=pytest.mark.requirement("SEED-003/task6-encoded-once")),
        pytest.param(True, "true", marks=pytest.mark.requirement("SEED-003/task6-encoded-once")),
        pytest.param(
            ...,
            "{}",
            marks=pytest.mark.requirement("SEED-003/task6-undefined", "SEED-003/tests-arguments-undefined"),
        ),
        pytest.param("", "{}", marks=pytest.mark.requirement("SEED-003/task6-undefined")),
    ],
)
@pytest.mark.parametrize("upstream", ["whole", "deltas"])
async def test_arguments_are_a_string_that_was_encoded_at_most_once(
    given: Any, encoded: str, upstream: str
) -> None:
    message = called(given)
    if upstream == "deltas":
        message["tool_calls"][0]["index"] = 0
    script = heard(message) if upstream == "whole" else heard_deltas(message)
    async with gateway("proxy", *script) as model:
        assert await arguments_of(model) == encoded


@pytest.mark.requirement("SEED-003/task6-null")
async def test_arguments_that_are_null_are_none_at_all() -> None:
    async with gateway("proxy", *heard(called(None))) as model:
        assert await arguments_of(model) == "{}"
