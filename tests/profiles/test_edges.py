"""Profiles combined with storage, following, omitted params and truncation."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from antiphon import ScriptedBackend
from antiphon.backends.scripted import Step
from antiphon.errors import BackendTimeout
from antiphon.settings import ProfileName
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.profiles.gateway import LISTEN, LOOK, Gateway, call, gateway, read_blocks, refusal_of
from tests.profiles.order import check_message_first

SEARCH = {"type": "web_search_preview"}


@pytest.mark.parametrize("profile", ["openai", "maestro", "proxy"])
async def test_a_response_with_store_false_is_not_stored(profile: ProfileName) -> None:
    async with gateway(profile, state=True) as model:
        answer = await model.answer(store=False)
        assert answer["store"] is False
        assert (await model.client.get(f"/v1/responses/{answer['id']}")).status_code == 404


async def test_a_tool_that_was_taken_unread_does_not_come_back_with_the_history() -> None:
    async with gateway("maestro", state=True) as model:
        first = await model.answer(tools=[{"type": "custom"}, LOOK])
        await model.answer(previous_response_id=first["id"])
        assert [tool.name for tool in model.turn.tools] == ["look"]


@pytest.mark.parametrize(
    ("allowed", "shown"),
    [
        ([SEARCH, {"type": "function", "name": "look"}], ["look"]),
        ([SEARCH], []),
        ([{"type": "custom", "name": "patch"}], []),
    ],
)
async def test_omitted_allowed_tools_are_no_error(allowed: list[Any], shown: list[str]) -> None:
    async with gateway("maestro") as model:
        choice = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
        tools = [LOOK, LISTEN, SEARCH, {"type": "custom", "name": "patch"}]
        await model.answer(tools=tools, tool_choice=choice)
        assert [tool.name for tool in model.turn.tools] == shown


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("data:image/png;base64,AAAA", "image_url"),
        ("DATA:image/svg+xml;BASE64,AAAA", "image_url"),
        ("data:image/svg+xml,<svg/>", "text"),
        ("data:text/plain;base64,AAAA", "text"),
    ],
)
async def test_only_images_in_base64_are_images(url: str, kind: str) -> None:
    async with gateway("maestro") as model:
        content = [{"type": "input_text", "text": "See:"}, {"type": "input_image", "image_url": url}]
        await model.answer(input=[{"role": "user", "content": content}])
        sent = model.turn.items[0]
        parts = msgspec.to_builtins(sent)["content"]
        assert (parts[1]["type"] == "input_image") == (kind == "image_url")


@pytest.mark.parametrize("profile", ["openai", "maestro", "proxy"])
async def test_an_empty_input_list_adds_no_message(profile: ProfileName) -> None:
    async with gateway(profile, state=True) as model:
        first = await model.answer(input="one")
        second = await model.answer(input=[], instructions="Go on.", previous_response_id=first["id"])
        listed = await model.client.get(f"/v1/responses/{second['id']}/input_items")
        assert [item["role"] for item in listed.json()["data"]] == ["assistant", "user"]
        assert "" not in [message["content"] for message in model.messages]


async def test_stored_input_has_the_ids_of_the_profile() -> None:
    async with gateway("maestro", state=True) as model:
        answer = await model.answer(input="one")
        listed = await model.client.get(f"/v1/responses/{answer['id']}/input_items")
        assert listed.json()["data"][0]["id"].startswith("msg_AM-")


async def test_a_warning_for_a_tool_does_not_wait_for_the_model(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway("maestro", ScriptedBackend([BackendTimeout("late")])) as model:
        assert (await model.post(tools=[{"type": "web_search"}])).status_code == 500
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any("'web_search'" in message for message in warned)


async def test_a_choice_of_a_function_that_is_not_declared_is_rejected() -> None:
    async with gateway("maestro") as model:
        status, error = await model.refusal(tools=[LOOK], tool_choice={"type": "function", "name": "listen"})
        assert (status, error["param"]) == (400, "tool_choice")


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
async def test_a_file_in_the_output_of_a_tool_is_shown_as_text(kind: str) -> None:
    called = "custom_tool_call" if kind.startswith("custom") else "function_call"
    payload = {"input": "x"} if kind.startswith("custom") else {"arguments": "{}"}
    part = {"type": "input_file", "file_url": "https://example.com/a.pdf"}
    async with gateway("maestro") as model:
        await model.answer(
            input=[
                {"role": "user", "content": "hi"},
                {"type": called, "call_id": "c", "name": "look", **payload},
                {"type": kind, "call_id": "c", "output": [part]},
            ]
        )
        output = msgspec.to_builtins(model.turn.items[-1])["output"]
        assert output[0]["type"] == "input_text"
        assert msgspec.json.decode(output[0]["text"]) == part


@pytest.mark.parametrize("profile", ["maestro", "proxy"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/conversations"),
        ("GET", "/v1/conversations/c"),
        ("POST", "/v1/conversations/c"),
        ("DELETE", "/v1/conversations/c"),
        ("POST", "/v1/conversations/c/items"),
        ("GET", "/v1/conversations/c/items"),
        ("GET", "/v1/conversations/c/items/i"),
        ("DELETE", "/v1/conversations/c/items/i"),
    ],
)
async def test_there_are_no_conversations_without_state(profile: ProfileName, method: str, path: str) -> None:
    async with gateway(profile) as model:
        status, error = refusal_of(await model.client.request(method, path))
        assert (status, error["code"]) == (400, "unsupported_parameter")
        assert "history" in error["message"]


async def test_held_text_is_sent_when_the_backend_ends_without_a_reason() -> None:
    model_chunks = [TextDelta("Hello "), TextDelta('<tool_call>{"name": "look", ')]
    async with gateway("openai", *model_chunks, text_calls="auto") as model:
        streamed = await model.stream(tools=[LOOK])
        assert streamed.kinds[-1] == "failed"
        assert streamed.final["output"][0]["content"][0]["text"] == 'Hello <tool_call>{"name": "look", '


async def test_the_header_may_come_once() -> None:
    async with gateway("openai") as model:
        headers = [("x-antiphon-profile", "maestro"), ("x-antiphon-profile", "proxy")]
        reply = await model.client.post("/v1/responses", json={"model": "m", "input": "hi"}, headers=headers)
        status, error = refusal_of(reply)
        assert (status, error["param"]) == (400, "x-antiphon-profile")


async def in_the_background(served: Gateway, model: str = "m") -> str:
    body = {"model": model, "input": "hi", "background": True}
    return (await served.send(body, "openai")).json()["id"]


async def test_a_followed_stream_has_the_framing_of_the_followers_profile() -> None:
    async with gateway("openai", TextDelta("half"), Finished("length")) as model:
        background_id = await in_the_background(model)
        url = f"/v1/responses/{background_id}?stream=true"
        plain = read_blocks((await model.client.get(url)).text)
        shaped = read_blocks((await model.client.get(url, headers={"x-antiphon-profile": "proxy"})).text)
    assert plain[-2].name == "response.incomplete"
    assert shaped[-2].name == "response.completed"
    assert shaped[-1] == ("done", "[DONE]")
    first, last = msgspec.json.decode(shaped[0].data), msgspec.json.decode(shaped[-2].data)
    assert first["response"]["created"] == last["response"]["created"]
    assert "usage" not in last["response"]
    assert last["response"]["status"] == "incomplete"
    numbers = [msgspec.json.decode(block.data)["sequence_number"] for block in shaped[:-1]]
    assert numbers == list(range(len(numbers)))


async def test_work_in_the_background_finds_the_similar_model_that_it_was_accepted_for() -> None:
    async with gateway("openai", models=("gpt-4o",), similar_models=True) as model:
        background_id = await in_the_background(model, model="gpt-4")
        followed = read_blocks((await model.client.get(f"/v1/responses/{background_id}?stream=true")).text)
    assert followed[-2].name == "response.completed"
    assert model.turn.model == "gpt-4o"


@pytest.mark.parametrize(
    ("model_chunks", "statuses"),
    [
        ([TextDelta("half")], ["incomplete"]),
        ([TextDelta("whole."), *call(0, "{}")], ["completed", "completed"]),
        ([TextDelta("whole."), *call(0, '{"at')], ["completed", "incomplete"]),
        ([*call(0, "{}"), TextDelta("half")], ["incomplete", "completed"]),
        ([*call(0, "{}"), TextDelta("half "), TextDelta("a sen")], ["incomplete", "completed"]),
        (
            [CallStarted(0, "a", "look"), CallFinished(0), *call(1, '{"at')],
            ["completed", "completed", "incomplete"],
        ),
        (
            [CallStarted(0, "a", "look"), CallStarted(1, "b", "look"), CallDelta(1, "{}")],
            ["completed", "incomplete", "completed"],
        ),
    ],
)
async def test_the_truncated_item_is_the_last_one(model_chunks: list[Chunk], statuses: list[str]) -> None:
    async with gateway("proxy", *model_chunks, Finished("length")) as model:
        streamed = await model.stream(tools=[LOOK])
        check_message_first(streamed.events)
        assert [item["status"] for item in streamed.final["output"]] == statuses


async def test_an_answer_with_a_held_call_is_created_at_once() -> None:
    """The backend waits until the client has received response.created."""
    tagged = '<tool_call>{"name": "look", "arguments": {"at": "sea"}}</tool_call>'
    script = [[TextDelta(tagged[:20])], [TextDelta(tagged[20:])], [Finished("stop")]]
    async with gateway("openai", ScriptedBackend(script), text_calls="auto") as model:
        streamed = await model.stream(tools=[LOOK])
        assert "keepalive" not in streamed.kinds
        assert streamed.kinds[:3] == ["created", "in_progress", "output_item.added"]
        assert [item["type"] for item in streamed.final["output"]] == ["function_call"]


async def test_an_internal_error_in_mid_stream_has_the_form_of_the_profile() -> None:
    def steps(_turn: TurnRequest) -> Iterator[Step]:
        yield [TextDelta("half")]
        raise RuntimeError("a bug")

    async with gateway("proxy", ScriptedBackend(steps), finish_reason="body") as model:
        streamed = await model.stream()
        check_message_first(streamed.events)
        assert streamed.final["created"] == streamed.final["created_at"]
        assert streamed.final["_proxy"] == {"finish_reason": "error"}
        assert streamed.blocks[-1] == ("done", "[DONE]")
