"""A client that adds conversations to a server that stores nothing."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from antiphon import Antiphon, Route, ScriptedBackend
from antiphon.errors import ResponsesCallFailed
from antiphon.orchestrator import (
    AgentExecuteRequest,
    InProcessResponsesClient,
    ServerTool,
    ToolRegistry,
    execute,
)
from antiphon.orchestrator.client import RememberingClient
from antiphon.protocol.content import JsonObject
from antiphon.settings import SealSettings, Settings, StoreSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta

TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
FORGETFUL = Settings(store=StoreSettings(url="none"), seal=SealSettings(key="k"))


class Server:
    """Answers with a call and reasoning of both kinds; stores nothing."""

    def __init__(self) -> None:
        self.bodies: list[JsonObject] = []

    async def create(self, body: JsonObject) -> bytes:
        self.bodies.append(body)
        output: list[JsonObject] = [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "sealed"},
            {"type": "function_call", "call_id": f"c{len(self.bodies)}", "name": "look", "arguments": "{}"},
        ]
        return msgspec.json.encode({"id": f"resp_{len(self.bodies)}", "output": output})

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        response = msgspec.json.decode(await self.create(body))
        yield {"type": "response.created", "response": {**response, "output": []}}
        yield {"type": "response.completed", "response": response}

    async def retrieve(self, response_id: str) -> bytes:
        return response_id.encode()

    async def default_model(self) -> str:
        return "m"


OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "nice"}


async def streamed(client: RememberingClient, body: JsonObject) -> None:
    async with aclosing(client.stream(body)) as events:
        assert [event["type"] async for event in events] == ["response.created", "response.completed"]


@pytest.mark.parametrize("make", [RememberingClient.create, streamed], ids=["complete", "streamed"])
async def test_a_continuation_is_sent_as_the_complete_conversation(make: Any) -> None:
    server = Server()
    client = RememberingClient(server)
    await make(client, {"model": "m", "input": "Hi", "tools": TOOLS})
    await make(client, {"model": "m", "input": [OUTPUT], "previous_response_id": "resp_1"})
    first, second = server.bodies
    assert first == {"model": "m", "input": "Hi", "tools": TOOLS, "store": False}
    assert (second["tools"], "previous_response_id" in second) == (TOOLS, False)
    kinds = [item.get("id") or item.get("type") or item["content"] for item in second["input"]]
    assert kinds == ["Hi", "rs_2", "function_call", "function_call_output"]


async def test_any_response_can_be_continued_with_its_output() -> None:
    server = Server()
    client = RememberingClient(server)
    await client.create({"input": "Hi"})
    for _ in range(2):
        await client.create({"input": [OUTPUT], "previous_response_id": "resp_1"})
    assert server.bodies[1] == server.bodies[2]
    assert msgspec.json.decode(await client.retrieve("resp_1"))["id"] == "resp_1"
    assert await client.retrieve("resp_elsewhere") == b"resp_elsewhere"
    assert await client.default_model() == "m"


async def test_an_evicted_response_is_reported() -> None:
    client = RememberingClient(Server(), limit=1)
    await client.create({"input": "One"})
    await client.create({"input": "Two"})
    with pytest.raises(ResponsesCallFailed, match="resp_1") as refusal:
        await client.create({"input": "Three", "previous_response_id": "resp_1"})
    assert (refusal.value.status, refusal.value.code) == (400, "previous_response_not_found")


async def test_an_agent_works_on_a_server_that_stores_nothing() -> None:
    call = [CallStarted(0, "c1", "look"), CallDelta(0, "{}"), Finished("tool_calls")]
    backend = ScriptedBackend([call], [[TextDelta("It is nice."), Finished("stop")]])
    look = ServerTool("look", "Looks.", {"type": "object"}, lambda: "nice")
    async with Antiphon(FORGETFUL, routes=[Route("m", backend)]) as antiphon:
        answer = await execute(
            AgentExecuteRequest(instruction="How is it?"),
            client=RememberingClient(InProcessResponsesClient(antiphon, model="m")),
            tools=ToolRegistry([look]),
        )
    assert (answer.kind, answer.text) == ("ok", "It is nice.")
    assert [tool.name for tool in backend.turns[1].tools] == ["look"]


async def test_an_invalid_response_is_passed_on_unchanged() -> None:
    class Strange(Server):
        async def create(self, body: JsonObject) -> bytes:
            return b"<html>"

    assert await RememberingClient(Strange()).create({"input": "Hi", "store": True}) == b"<html>"
