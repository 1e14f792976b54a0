"""The contract of every client of the Responses API, over any transport."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Protocol

import pytest

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.backends.scripted import Step
from antiphon.caller import Caller
from antiphon.errors import BackendBroken, BackendRefused, ResponsesCallFailed
from antiphon.orchestrator.client import InProcessResponsesClient, ResponsesClient
from antiphon.orchestrator.http_client import HttpResponsesClient
from antiphon.protocol.items import Message
from antiphon.service.tenant_service import TenantService
from antiphon.settings import SealSettings, StoreSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from antiphon.wiring import build_app, open_services
from tests.turn.order import check_order
from tests.uvicorn_here import serve_here

TEST_TIMEOUT_SECONDS = 30.0
SETTINGS = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"))
REQUEST: dict[str, Any] = {
    "model": "m",
    "input": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
}
TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}


@asynccontextmanager
async def over_antiphon(backend: ScriptedBackend) -> AsyncGenerator[ResponsesClient, None]:
    async with Antiphon(SETTINGS, routes=[Route("m", backend)]) as antiphon:
        yield InProcessResponsesClient(antiphon)


@asynccontextmanager
async def over_a_tenant(backend: ScriptedBackend) -> AsyncGenerator[ResponsesClient, None]:
    async with open_services(SETTINGS, [Route("m", backend)]) as services:
        yield InProcessResponsesClient(TenantService(services, Caller.of("theirs")))


@asynccontextmanager
async def over_http(backend: ScriptedBackend) -> AsyncGenerator[ResponsesClient, None]:
    def app() -> Any:
        return build_app(SETTINGS, routes=[Route("m", backend)])

    async with (
        serve_here(app) as here,
        HttpResponsesClient(f"http://127.0.0.1:{here.port}", retries=0) as client,
    ):
        yield client


class Open(Protocol):
    """Opens a client of a service with this backend."""

    def __call__(self, backend: ScriptedBackend) -> AbstractAsyncContextManager[ResponsesClient]: ...


@pytest.fixture(params=[over_antiphon, over_a_tenant, over_http])
def opened(request: pytest.FixtureRequest) -> Open:
    return request.param


def texts(turn: TurnRequest) -> list[str]:
    """The texts of the messages that the model received."""
    parts = [item.content for item in turn.items if isinstance(item, Message)]
    return [
        part if isinstance(part, str) else " ".join(getattr(piece, "text", "") for piece in part)
        for part in parts
    ]


def refusal(failure: ResponsesCallFailed) -> dict[str, Any]:
    """The error object of a failed call, which is also its body."""
    error = json.loads(failure.body)["error"]
    assert (error["message"], error["code"]) == (failure.message, failure.code)
    return error


async def test_a_response_is_returned_and_can_be_retrieved(opened: Open) -> None:
    async with opened(ScriptedBackend.saying("Hel", "lo")) as client:
        raw = await client.create(REQUEST)
        assert await client.retrieve(json.loads(raw)["id"]) == raw
    response = json.loads(raw)
    assert (response["status"], response["output"][0]["content"][0]["text"]) == ("completed", "Hello")


async def test_a_response_is_streamed_as_events(opened: Open) -> None:
    async with opened(ScriptedBackend.saying("Hel", "lo")) as client:
        events = [event async for event in client.stream(REQUEST)]
        check_order(events)
        assert json.loads(await client.retrieve(events[-1]["response"]["id"])) == events[-1]["response"]
    assert [event["delta"] for event in events if event["type"] == "response.output_text.delta"] == [
        "Hel",
        "lo",
    ]


async def test_the_first_model_is_the_default(opened: Open) -> None:
    async with opened(ScriptedBackend.saying("x")) as client:
        assert await client.default_model() == "m"


async def test_a_chain_remembers_its_messages_and_tools(opened: Open) -> None:
    call = [[CallStarted(0, "call_1", "look"), CallDelta(0, "{}")], [Finished("tool_calls")]]
    backend = ScriptedBackend(call, [[TextDelta("Done.")], [Finished("stop")]])
    async with opened(backend) as client:
        choice = {"type": "tool", "name": "look"}
        first = json.loads(await client.create({**REQUEST, "tools": [TOOL], "tool_choice": choice}))
        output = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
        raw = await client.create({"model": "m", "previous_response_id": first["id"], "input": [output]})
    assert first["output"][0]["call_id"] == "call_1"
    assert json.loads(raw)["output"][0]["content"][0]["text"] == "Done."
    assert texts(backend.turns[1])[0] == "hi"
    for turn in backend.turns:
        assert [tool.name for tool in turn.tools] == ["look"]


@pytest.mark.parametrize(
    ("changed", "status", "code", "param"),
    [
        ({"model": "nobody"}, 404, "model_not_found", "model"),
        ({"previous_response_id": "resp_nobody"}, 400, None, "previous_response_id"),
        ({"temperature": 9}, 400, None, "temperature"),
    ],
)
async def test_a_refusal_has_the_error_object_of_the_server(
    opened: Open, changed: dict[str, Any], status: int, code: str | None, param: str
) -> None:
    async with opened(ScriptedBackend.saying("x")) as client:
        with pytest.raises(ResponsesCallFailed) as unstreamed:
            await client.create({**REQUEST, **changed})
        with pytest.raises(ResponsesCallFailed) as streamed:
            await anext(client.stream({**REQUEST, **changed}))
    for failure in (unstreamed.value, streamed.value):
        error = refusal(failure)
        assert (failure.status, error["param"], error["type"]) == (status, param, "invalid_request_error")
        assert code is None or failure.code == code


async def test_an_unknown_response_cannot_be_retrieved(opened: Open) -> None:
    async with opened(ScriptedBackend.saying("x")) as client:
        with pytest.raises(ResponsesCallFailed) as caught:
            await client.retrieve("resp_nobody")
    assert (caught.value.status, refusal(caught.value)["type"]) == (404, "invalid_request_error")


async def test_a_model_that_refuses_refuses_with_its_status(opened: Open) -> None:
    busy = BackendRefused("too fast", status=429, code="rate_limit_exceeded")
    async with opened(ScriptedBackend([busy])) as client:
        with pytest.raises(ResponsesCallFailed) as caught:
            await client.create(REQUEST)
    assert (caught.value.status, refusal(caught.value)["type"]) == (429, "rate_limit_error")
    assert caught.value.retryable


async def test_a_broken_model_stream_is_an_error_or_a_failed_response(opened: Open) -> None:
    backend = ScriptedBackend([[TextDelta("Once")], BackendBroken("it broke off")])
    async with opened(backend) as client:
        with pytest.raises(ResponsesCallFailed) as caught:
            await client.create(REQUEST)
        events = [event async for event in client.stream(REQUEST)]
    assert (caught.value.status, refusal(caught.value)["message"]) == (502, "it broke off")
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"] == "it broke off"
    assert "error" not in [event["type"] for event in events]


class Halting:
    """A backend that sends one text delta and then nothing until it is closed."""

    def __init__(self) -> None:
        self.first_delta_sent, self.closed = asyncio.Event(), asyncio.Event()
        self.backend = ScriptedBackend(self._steps)

    async def _steps(self, _turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("one")]
            self.first_delta_sent.set()
            await asyncio.Event().wait()
        finally:
            self.closed.set()


async def test_closing_a_stream_early_stops_the_model(opened: Open) -> None:
    halting = Halting()
    async with opened(halting.backend) as client:
        async with aclosing(client.stream(REQUEST)) as events:
            async for event in events:
                if event["type"] == "response.output_text.delta":
                    break
        await asyncio.wait_for(halting.closed.wait(), TEST_TIMEOUT_SECONDS)


async def test_cancelling_the_call_stops_the_model(opened: Open) -> None:
    halting = Halting()
    async with opened(halting.backend) as client:
        creating = asyncio.create_task(client.create(REQUEST))
        await asyncio.wait_for(halting.first_delta_sent.wait(), TEST_TIMEOUT_SECONDS)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        await asyncio.wait_for(halting.closed.wait(), TEST_TIMEOUT_SECONDS)
