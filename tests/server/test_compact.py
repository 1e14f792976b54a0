"""``POST /v1/responses/compact`` over HTTP, and as the official SDK reads it."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import openai
import pytest
from agents import SQLiteSession
from agents.memory import OpenAIResponsesCompactionSession

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import AntiphonError
from antiphon.server.admission import Admission
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.guard import read_head
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.memory import memory_client
from antiphon.server.routes.responses import CompactRoutes
from antiphon.server.types import ASGIApp, Receive, Scope, Send
from antiphon.turn.chunks import HEARTBEAT, Finished, TextDelta, UsageReported
from antiphon.turn.context import TurnRequest
from tests.service.responses.test_compaction import SEALER, USAGE, compactor

REQUEST = {"model": "m", "input": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}


def app(backend: ScriptedBackend, **limits: float) -> ASGIApp:
    bounds = {"max_body": 10_000, "body_timeout": 5.0, **limits}
    lifetimes = Lifetimes()
    bodies = BodyReader(lifetimes, int(bounds["max_body"]), bounds["body_timeout"], Admission())
    routes = CompactRoutes(compactor(backend, model="m"), lifetimes, bodies)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, head=read_head(scope["headers"]), request_id="req_1")
        exchange.caller = Caller.of("t")
        try:
            await routes.compact(exchange)
        except AntiphonError as error:
            await exchange.send_error(error)

    return serve


def summarising() -> ScriptedBackend:
    return ScriptedBackend([[TextDelta("greetings"), Finished("stop"), UsageReported(USAGE)]])


@pytest.mark.requirement("PROTOCOL/endpoints-compact")
async def test_the_answer_is_one_json_object() -> None:
    async with memory_client(app(summarising())) as client:
        answer = await client.post("/v1/responses/compact", json=REQUEST)
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "req_1")
    body = answer.json()
    assert body["object"] == "response.compaction"
    assert [item["type"] for item in body["output"]] == ["message", "compaction"]
    assert body["usage"]["total_tokens"] == 8


async def test_only_responses_of_the_keys_tenant_can_be_compacted() -> None:
    async with memory_client(app(summarising())) as client:
        for known, status in (("resp_1", 200), ("resp_2", 400)):
            sent = {"model": "m", "previous_response_id": known}
            assert (await client.post("/v1/responses/compact", json=sent)).status_code == status


async def test_a_body_beyond_the_bound_is_rejected() -> None:
    async with memory_client(app(summarising(), max_body=10)) as client:
        assert (await client.post("/v1/responses/compact", json=REQUEST)).status_code == 413


async def test_a_client_disconnect_cancels_the_model() -> None:
    requested, ended = asyncio.Event(), asyncio.Event()

    async def wait(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        requested.set()
        try:
            await asyncio.Event().wait()
            yield HEARTBEAT
        finally:
            ended.set()

    async def receive() -> dict[str, object]:
        if requested.is_set():
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": msgspec.json.encode(REQUEST), "more_body": False}

    async def send(_message: object) -> None:
        raise AssertionError("unexpected call after the disconnect")

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses/compact",
        "headers": [(b"host", b"a")],
    }
    with pytest.raises(ClientGone):
        await app(ScriptedBackend(wait))(scope, receive, send)
    assert ended.is_set()


@pytest.mark.requirement("PROTOCOL/endpoints-compact-continue")
async def test_the_official_sdk_reads_the_answer_and_sends_it_back() -> None:
    async with memory_client(app(summarising())) as http:
        client = openai.AsyncOpenAI(base_url="http://antiphon/v1", api_key="-", http_client=http)
        compacted = await client.responses.compact(**REQUEST)  # pyright: ignore[reportArgumentType]
        message, compaction = compacted.output
        assert message.type == "message"
        assert compaction.type == "compaction"
        assert SEALER.open_summary(compaction.encrypted_content) == "greetings"
        assert compacted.usage.total_tokens == 8
        again = [item.model_dump(exclude_unset=True, warnings=False) for item in compacted.output]
        second = await client.responses.compact(model="m", input=again)  # pyright: ignore[reportArgumentType]
        assert [item.type for item in second.output] == ["message", "compaction"]


@pytest.mark.requirement("PROTOCOL/compaction-agents-session")
async def test_a_session_of_the_agents_sdk_is_compacted_and_continues() -> None:
    stored = SQLiteSession("s")
    async with memory_client(app(summarising())) as http:
        client = openai.AsyncOpenAI(base_url="http://antiphon/v1", api_key="-", http_client=http)
        session = OpenAIResponsesCompactionSession("s", stored, client=client, model="gpt-4.1")
        await session.add_items([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}])
        for _ in range(2):
            await session.run_compaction({"force": True, "compaction_mode": "input"})
            kinds = [item.get("type") for item in await session.get_items()]
            assert kinds == ["message", "compaction"]
    stored.close()
