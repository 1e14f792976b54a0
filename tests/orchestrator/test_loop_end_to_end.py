"""The loop of seed 004 against real servers: ours in this process, ours as a process, and another one."""

import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from aiohttp import web

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.backends.local.backend import LocalBackend
from antiphon.backends.local.weights import DEFAULT_MODEL
from antiphon.backends.scripted import Step
from antiphon.orchestrator.client import InProcessResponsesClient
from antiphon.orchestrator.http_client import HttpResponsesClient
from antiphon.orchestrator.loop import run_orchestrator
from antiphon.orchestrator.provider import Provider
from antiphon.orchestrator.tool import Tool
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import FunctionCall, FunctionCallOutput
from antiphon.settings import SealSettings, StoreSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.backends.local.conftest import weights_folder
from tests.orchestrator.fake_responses import function_call, message, response
from tests.serving import run_server

IN_MEMORY = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"))
DECISION = {"is_approved": True, "reason": "It says what was done."}
DECISION_JSON = '{"is_approved": true, "reason": "It says what was done."}'


def pull_content(content_id: str) -> dict[str, str]:
    """Read the submitted content."""
    if content_id == "gone":
        raise LookupError("there is no 'gone'")
    return {"content": f"the text of {content_id}"}


SUBMIT_DECISION = Tool(
    "submit_decision",
    "Approve or reject. This ends the review.",
    {
        "type": "object",
        "properties": {"is_approved": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["is_approved", "reason"],
        "additionalProperties": False,
    },
)
TOOLS = [Tool.from_function(pull_content), SUBMIT_DECISION]


class Sent(InProcessResponsesClient):
    """Records the requests of the client."""

    def __init__(self, service: Antiphon) -> None:
        super().__init__(service, model="m")
        self.bodies: list[JsonObject] = []

    async def create(self, body: JsonObject) -> bytes:
        self.bodies.append(body)
        return await super().create(body)


def calling(*calls: tuple[str, str, str]) -> list[Step]:
    """One turn with these calls: id, name and arguments."""
    chunks = [
        chunk
        for index, (call_id, name, arguments) in enumerate(calls)
        for chunk in (CallStarted(index, call_id, name), CallDelta(index, arguments))
    ]
    return [[*chunks, Finished("tool_calls")]]


def reviewer() -> ScriptedBackend:
    """Reads two submissions, of which one is missing; emits reasoning; and decides."""
    return ScriptedBackend(
        calling(("call_a", "pull_content", '{"content_id": "a"}'), ("call_b", "pull_content", '{"content_id": "gone"}')),
        [[TextDelta("Let me think."), Finished("stop")]],
        calling(("call_c", "submit_decision", DECISION_JSON)),
    )  # fmt: skip


@pytest.mark.requirement(
    "SEED-004/goals-memory", "SEED-004/goals-tools-once", "SEED-004/why-state", "SEED-004/flow-outputs",
    "SEED-004/pitfalls-no-resent-tools", "SEED-004/plan-turn", "SEED-004/plan-loop",
)  # fmt: skip
async def test_tools_and_history_are_sent_once_and_the_model_sees_them_in_every_turn() -> None:
    backend = reviewer()
    async with Antiphon(IN_MEMORY, routes=[Route("m", backend)]) as antiphon:
        client = Sent(antiphon)
        assert await run_orchestrator(Provider(client), TOOLS, "Review it.") == DECISION
    assert ["tools" in body for body in client.bodies] == [True, False, False]
    assert ["previous_response_id" in body for body in client.bodies] == [False, True, True]
    for turn in backend.turns:
        assert [tool.name for tool in turn.tools] == ["pull_content", "submit_decision"]
    assert outputs_of(backend.turns[1]) == outputs_of(backend.turns[2]) == [
        ("call_a", '{"content":"the text of a"}'),
        ("call_b", '{"error":"LookupError: there is no \'gone\'"}'),
    ]  # fmt: skip
    assert [item.call_id for item in backend.turns[2].items if isinstance(item, FunctionCall)] == [
        "call_a",
        "call_b",
    ]


def outputs_of(turn: TurnRequest) -> list[tuple[str, Any]]:
    return [(item.call_id, item.output) for item in turn.items if isinstance(item, FunctionCallOutput)]


@pytest.mark.requirement("SEED-004/testing-integration", "SEED-004/flow-final-text")
async def test_a_turn_with_calls_is_followed_by_one_with_outputs_and_a_final_text() -> None:
    def steps_for(turn: TurnRequest) -> Iterable[Step]:
        outputs = outputs_of(turn)
        if outputs:
            return [[TextDelta(f"I have read {outputs[0][1]}."), Finished("stop")]]
        return calling(("call_a", "pull_content", '{"content_id": "a"}'))

    async with Antiphon(IN_MEMORY, routes=[Route("m", ScriptedBackend(steps_for))]) as antiphon:
        provider = Provider(InProcessResponsesClient(antiphon), model="m")
        text, calls, first = await provider.generate_responses_turn(None, "Review it.", TOOLS, None)
        assert (text, [call.id for call in calls]) == ("", ["call_a"])
        text, calls, second = await provider.generate_responses_turn(first, None, None, {"call_a": "it"})
        assert (text, calls) == ("I have read it.", [])
        assert second != first


async def test_a_single_answer_uses_the_same_provider() -> None:
    async with Antiphon(IN_MEMORY, routes=[Route("m", ScriptedBackend.saying('{"a": 1}'))]) as antiphon:
        provider = Provider(InProcessResponsesClient(antiphon))
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}  # fmt: skip
        assert await provider.generate_response("Be brief.", "Go.", schema=schema) == '{"a": 1}'


class Loopback:
    """A server on loopback that records its requests."""

    def __init__(self, answer: Callable[[JsonObject], JsonObject]) -> None:
        self.bodies: list[JsonObject] = []
        self.url = ""
        self._answer = answer

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        return web.json_response(self._answer(self.bodies[-1]))


@asynccontextmanager
async def serving(path: str, answer: Callable[[JsonObject], JsonObject]) -> AsyncGenerator[Loopback, None]:
    server, app = Loopback(answer), web.Application()
    app.router.add_post(path, server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


def other_server(body: JsonObject) -> JsonObject:
    """A foreign Responses server: it reads first, and then decides."""
    if "previous_response_id" in body:
        return response(function_call("call_b", "submit_decision", DECISION_JSON), id="resp_2")
    call = function_call("call_a", "pull_content", '{"content_id": "a"}')
    return response(message("Let me see."), call, id="resp_1")


@pytest.mark.requirement("SEED-004/pitfalls-base-url")
@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
async def test_the_loop_works_with_any_responses_server_with_or_without_v1_in_its_address(path: str) -> None:
    async with (
        serving("/v1/responses", other_server) as server,
        HttpResponsesClient(server.url + path) as client,
    ):
        assert await run_orchestrator(Provider(client, model="m"), TOOLS, "Review it.") == DECISION
    assert [sorted(body) for body in server.bodies] == [
        ["input", "model", "store", "stream", "tools"],
        ["input", "model", "previous_response_id", "store", "stream"],
    ]


@pytest.mark.requirement("SEED-004/compatibility-capability")
async def test_the_client_resends_tools_to_a_server_that_forgets_them() -> None:
    async with (
        serving("/v1/responses", other_server) as server,
        HttpResponsesClient(server.url, resend_tools=True) as client,
    ):
        assert await run_orchestrator(Provider(client, model="m"), TOOLS, "Review it.") == DECISION
    assert server.bodies[1]["tools"] == server.bodies[0]["tools"] == [tool.declaration() for tool in TOOLS]


def chat_model(body: JsonObject) -> JsonObject:
    """A chat-completions server: it reads first, and then decides."""
    name, arguments = "pull_content", '{"content_id": "a"}'
    if body["messages"][-1]["role"] == "tool":
        name, arguments = "submit_decision", DECISION_JSON
    call = {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": arguments}}
    call_message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": call_message, "finish_reason": "tool_calls"}
    return {"id": "c", "object": "chat.completion", "choices": [choice]}


@pytest.mark.slow
@pytest.mark.requirement(
    "SEED-004/compatibility-legacy", "SEED-004/plan-chat-completions", "SEED-004/goals-tools-once"
)
async def test_a_chat_completions_model_decides_through_our_server(tmp_path: Path) -> None:
    async with serving("/v1/chat/completions", chat_model) as upstream:
        with run_server(tmp_path, "--upstream", f"{upstream.url}/v1") as served:
            async with HttpResponsesClient(served.base_url) as client:
                assert await run_orchestrator(Provider(client, model="m"), TOOLS, "Review it.") == DECISION
    names = [[tool["function"]["name"] for tool in body["tools"]] for body in upstream.bodies]
    assert names == [["pull_content", "submit_decision"]] * 2
    assert [turn["role"] for turn in upstream.bodies[1]["messages"]] == ["user", "assistant", "tool"]
    assert upstream.bodies[1]["messages"][-1]["content"] == '{"content":"the text of a"}'


@pytest.mark.slow
async def test_the_embedded_model_decides_when_it_must() -> None:
    threads = os.cpu_count() or 1
    backend = LocalBackend(DEFAULT_MODEL, weights_folder(), context=1024, parallel=1, threads=threads)
    async with aclosing(backend), Antiphon(IN_MEMORY, routes=[Route("local", backend)]) as antiphon:
        client = Sent(antiphon)
        provider = Provider(
            client, model="local", temperature=0, max_output_tokens=200, tool_choice="submit_decision"
        )
        decision = await run_orchestrator(provider, TOOLS, "I fixed the leaking tap. Approve or reject it.")
    jsonschema_rs.validate(SUBMIT_DECISION.parameters, decision)
    assert len(client.bodies) == 1
    assert not decision["reason"].startswith(("Max turns", "Failed to parse"))  # which would fit as well
