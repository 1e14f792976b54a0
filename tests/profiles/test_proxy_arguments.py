"""The `proxy` profile: the arguments of a call are a string, encoded at most once."""

from typing import Any

import pytest

from tests.profiles.gateway import LOOK, Gateway, gateway, read_deltas, read_message

JsonObject = dict[str, Any]


def called(arguments: Any) -> JsonObject:
    """A chat message with one call; `...` leaves its arguments out."""
    function = {"name": "look"} if arguments is ... else {"name": "look", "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "call_a", "type": "function", "function": function}]}


async def arguments_of(model: Gateway) -> str:
    """The arguments of the only call in the JSON answer, after checking that the stream is equal in every
    event.
    """
    _, one = (await model.answer(tools=[LOOK]))["output"]
    streamed = await model.stream(tools=[LOOK])
    assert (
        "".join(event["delta"] for event in streamed.of("function_call_arguments.delta")) == one["arguments"]
    )
    assert [event["arguments"] for event in streamed.of("function_call_arguments.done")] == [one["arguments"]]
    assert streamed.final["output"][1]["arguments"] == one["arguments"]
    assert isinstance(one["arguments"], str)
    return one["arguments"]


@pytest.mark.requirement("SEED-003/task6-always-string")
@pytest.mark.parametrize(
    ("arguments_sent", "encoded"),
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
    arguments_sent: Any, encoded: str, upstream: str
) -> None:
    message = called(arguments_sent)
    if upstream == "deltas":
        message["tool_calls"][0]["index"] = 0
    script = read_message(message) if upstream == "whole" else read_deltas(message)
    async with gateway("proxy", *script) as model:
        assert await arguments_of(model) == encoded


@pytest.mark.requirement("SEED-003/task6-null")
async def test_null_arguments_become_an_empty_object() -> None:
    async with gateway("proxy", *read_message(called(None))) as model:
        assert await arguments_of(model) == "{}"
