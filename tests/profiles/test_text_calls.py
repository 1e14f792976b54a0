"""Tool calls that a model writes as text, as clients of each profile receive them."""

import json
from typing import Any

import pytest

from antiphon import ScriptedBackend
from antiphon.settings import ProfileName, TextCalls
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from tests.profiles.gateway import LOOK, Gateway, call, gateway, text_of
from tests.profiles.order import check_message_first
from tests.turn.order import check_order

JsonObject = dict[str, Any]

CALL = '<tool_call>{"name": "look", "arguments": {"at": "sea"}}</tool_call>'
CHECKS = {"openai": check_order, "maestro": check_order, "proxy": check_message_first}
PROFILES: list[ProfileName] = ["openai", "maestro", "proxy"]


def text_chunks(*pieces: str) -> list[Chunk]:
    return [*map(TextDelta, pieces), Finished("stop")]


def visible(response: JsonObject) -> str:
    return "".join(text_of(item) for item in response["output"] if item["type"] == "message")


def calls_in(response: JsonObject) -> list[JsonObject]:
    return [item for item in response["output"] if item["type"] == "function_call"]


def without_ids(output: list[JsonObject]) -> list[JsonObject]:
    return [{key: item[key] for key in item if key not in ("id", "call_id")} for item in output]


async def both(model: Gateway, profile: ProfileName, **members: Any) -> JsonObject:
    """The JSON answer, after checking that the stream ends with the same output."""
    members = {"tools": [LOOK], **members}
    complete = await model.answer(**members)
    streamed = await model.stream(**members)
    CHECKS[profile](streamed.events)
    assert without_ids(streamed.final["output"]) == without_ids(complete["output"])
    return complete


@pytest.mark.requirement("SEED-003/tests-text-call-stripped", "SEED-003/task6-text-calls")
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("text_calls", ["auto", "hermes"])
async def test_a_call_in_the_text_is_taken_out_and_reported(
    profile: ProfileName, text_calls: TextCalls
) -> None:
    async with gateway(profile, *text_chunks("One moment. ", CALL), text_calls=text_calls) as model:
        response = await both(model, profile)
        assert visible(response).strip() == "One moment."
        (one,) = calls_in(response)
        assert one["name"] == "look"
        assert isinstance(one["arguments"], str)
        assert json.loads(one["arguments"]) == {"at": "sea"}
        assert one["call_id"]
        assert response["status"] == "completed"


@pytest.mark.requirement("SEED-003/task6-text-calls", "SEED-003/task6-encoded-once")
@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ('{"at": "sea"}', {"at": "sea"}),
        (json.dumps('{"at": "sea"}'), {"at": "sea"}),
        ("{}", {}),
        ("null", {}),
        (None, {}),
    ],
    ids=["object", "string", "empty", "null", "missing"],
)
async def test_arguments_are_encoded_once(arguments: str | None, meant: JsonObject) -> None:
    body = '{"name": "look"}' if arguments is None else f'{{"name": "look", "arguments": {arguments}}}'
    async with gateway("proxy", *text_chunks(f"<tool_call>{body}</tool_call>"), text_calls="auto") as model:
        (one,) = calls_in(await both(model, "proxy"))
        assert json.loads(one["arguments"]) == meant


@pytest.mark.requirement("SEED-003/tests-text-call-stripped", "SEED-003/tests-call-only")
async def test_an_answer_with_only_a_call_has_an_empty_message() -> None:
    async with gateway("proxy", *text_chunks(CALL), text_calls="auto") as model:
        response = await both(model, "proxy")
        assert [item["type"] for item in response["output"]] == ["message", "function_call"]
        assert visible(response) == ""


@pytest.mark.requirement("SEED-003/task3-deterministic", "SEED-003/tests-text-call-stripped")
@pytest.mark.parametrize("profile", PROFILES)
async def test_any_split_of_the_text_yields_the_same_output(profile: ProfileName) -> None:
    text = f"Größe? {CALL} und <b>{CALL}"
    scripts = [
        [text_chunks(text)],
        *([text_chunks(text[:at], text[at:])] for at in range(1, len(text))),
        [text_chunks(*text)],
    ]
    async with gateway(profile, ScriptedBackend(*scripts), text_calls="auto") as model:
        outputs = [without_ids((await model.answer(tools=[LOOK]))["output"]) for _ in scripts]
        assert [output for output in outputs if output != outputs[0]] == []
        assert len(calls_in({"output": outputs[0]})) == 2


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "sing", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "look", "arguments": {"at"',
        "a <tool_call> b",
        "a </tool_call> b",
        "x < y <tool",
        "<tool_call>[]</tool_call>",
        "<tool_call></tool_call>",
        "<TOOL_CALL>{}</TOOL_CALL>",
    ],
    ids=["undeclared", "never-closed", "opened", "closed", "half-a-tag", "list", "empty", "capitals"],
)
async def test_text_without_a_call_is_unchanged(profile: ProfileName, text: str) -> None:
    async with gateway(profile, *text_chunks(*text), text_calls="auto") as model:
        response = await both(model, profile)
        assert visible(response) == text
        assert calls_in(response) == []


@pytest.mark.parametrize("members", [{"tool_choice": "none"}, {"tools": []}], ids=["choice-none", "no-tools"])
async def test_where_no_tool_may_be_called_text_is_text(members: JsonObject) -> None:
    async with gateway("proxy", *text_chunks(CALL), text_calls="auto") as model:
        response = await both(model, "proxy", **members)
        assert visible(response) == CALL
        assert calls_in(response) == []


async def test_a_model_without_text_calls_is_not_parsed() -> None:
    async with gateway("proxy", *text_chunks(CALL), text_calls="off") as model:
        assert visible(await both(model, "proxy")) == CALL


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("order", ["native-first", "text-first"])
async def test_a_call_that_is_reported_natively_and_as_text_is_reported_once(
    profile: ProfileName, order: str
) -> None:
    native, text = call(0, '{"at":"sea"}', call_id="call_a"), [TextDelta(CALL)]
    model_chunks = [*native, *text] if order == "native-first" else [*text, *native]
    async with gateway(profile, *model_chunks, Finished("tool_calls"), text_calls="auto") as model:
        response = await both(model, profile)
        (one,) = calls_in(response)
        assert json.loads(one["arguments"]) == {"at": "sea"}
        assert "<tool_call>" not in visible(response)


async def test_the_finish_reason_of_a_call_in_the_text_is_tool_calls() -> None:
    async with gateway("proxy", *text_chunks(CALL), text_calls="auto", finish_reason="body") as model:
        assert (await model.answer(tools=[LOOK]))["_proxy"] == {"finish_reason": "tool_calls"}
