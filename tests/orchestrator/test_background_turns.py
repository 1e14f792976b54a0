"""Turns that are made by background responses: a resumed run follows the response that it submitted."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from antiphon import Route, ScriptedBackend, Settings
from antiphon.backends.scripted import Step
from antiphon.caller import Caller
from antiphon.errors import ResponsesCallFailed
from antiphon.orchestrator.background_turns import BackgroundResponses, InProcessBackgroundResponses
from antiphon.orchestrator.events import (
    AgentEvent,
    HostedCompleted,
    HostedStarted,
    TurnCompleted,
    TurnStarted,
)
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse
from antiphon.orchestrator.reasoner import execute
from antiphon.orchestrator.run_state import RunState
from antiphon.protocol.content import JsonObject
from antiphon.service.services import Services
from antiphon.service.tenant_service import TenantService
from antiphon.settings import SealSettings, StoreSettings
from antiphon.tools.registry import ToolRegistry
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from antiphon.wiring import open_services
from tests.orchestrator.scripted_client import ScriptedClient, answers, calls
from tests.orchestrator.test_hosted_tools import CITING, MCP_CALL
from tests.orchestrator.test_reasoner import tool
from tests.turn.order import check_order

SHOP = '[{"type": "mcp", "server_label": "shop"}]'
BUY = AgentExecuteRequest(instruction="Buy tea.", tools_json=SHOP)
BOUGHT: JsonObject = {"output": [MCP_CALL, CITING]}
BEGUN: JsonObject = {**MCP_CALL, "status": "in_progress", "output": None}


class Crash(BaseException):
    """The process has died."""


class Responses(ScriptedClient):
    """The ports for both kinds of responses over one script. Its background responses outlive the run, and the
    calls in them are made once for each response."""

    def __init__(self, *script: JsonObject, log: "Log") -> None:
        super().__init__(*script)
        self.made: dict[str, JsonObject] = {}
        self.ended: set[str] = set()
        self.calls = 0
        self.dies_at = 0
        """The event of a response at which the process dies; 0: it does not."""
        self._log = log

    def new_id(self) -> str:
        return f"resp_b{sum(isinstance(event, TurnStarted) for event in self._log.events)}"

    async def submit(self, body: JsonObject, response_id: str) -> bytes | None:
        started = self._log.events[-1] if response_id not in self.made else None
        if started is not None:
            assert isinstance(started, TurnStarted)
            assert started.response_id == response_id, "the id is stored before the response is submitted"
            response = self._respond(body)
            self.made[response_id] = self._stored[response_id] = {**response, "id": response_id}
            self._depth[response_id] = self._depth[response["id"]]
            self.calls += sum(item["type"] == "mcp_call" for item in response["output"])
        if response_id in self.ended:
            return msgspec.json.encode(self.made[response_id])
        return None

    async def follow(self, response_id: str) -> AsyncGenerator[JsonObject, None]:
        events = [
            {"type": "response.created"},
            {"type": "response.output_item.added", "item": BEGUN},
            {"type": "response.output_item.done", "item": MCP_CALL},
            {"type": "response.completed", "response": self.made[response_id]},
        ]
        for number, event in enumerate(events, 1):
            if number == self.dies_at:
                raise Crash
            yield event

    async def cancel(self, response_id: str) -> None:
        raise AssertionError


class Log:
    """The events of a run, as its store has them."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    async def emit(self, event: AgentEvent) -> None:
        assert event.sequence_number == len(self.events)
        self.events.append(event)

    async def perform(
        self, responses: Responses, request: AgentExecuteRequest = BUY, registry: ToolRegistry | None = None
    ) -> AgentExecuteResponse:
        return await execute(
            request,
            client=responses,
            tools=registry,
            tell=self.emit,
            past=tuple(self.events),
            durable=True,
            background=responses,
        )

    def turns(self) -> Sequence[str | None]:
        """The background responses of the turns."""
        return [event.response_id for event in self.events if isinstance(event, TurnStarted)]

    def of(self, kind: type[AgentEvent]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


@pytest.mark.parametrize("dies_at", [0, 1, 2, 3, 4])
async def test_a_resumed_run_follows_its_response_and_shows_each_call_once(dies_at: int) -> None:
    log = Log()
    responses = Responses(BOUGHT, log=log)
    responses.dies_at = dies_at
    if dies_at:
        with pytest.raises(Crash):
            await log.perform(responses)
        assert RunState(log.events).open_response_id == "resp_b0"
    responses.dies_at = 0
    response = await log.perform(responses)
    assert (response.text, response.response_continuation_id) == ("Tea is hot.", "resp_b0")
    assert [call.call_id for call in response.hosted_calls] == ["mcp_1"]
    assert (responses.calls, list(responses.made), log.turns()) == (1, ["resp_b0"], ["resp_b0"])
    assert [log.of(HostedStarted), log.of(HostedCompleted), log.of(TurnCompleted)] == [1, 1, 1]
    assert RunState(log.events).open_response_id is None


async def test_a_resumed_run_takes_a_response_that_has_ended() -> None:
    log = Log()
    responses = Responses(BOUGHT, log=log)
    responses.dies_at = 1
    with pytest.raises(Crash):
        await log.perform(responses)
    responses.ended.add("resp_b0")
    assert (await log.perform(responses)).text == "Tea is hot."
    assert responses.calls == 1


async def test_a_response_that_was_not_submitted_is_submitted_with_the_stored_id() -> None:
    log = Log()

    async def dying(event: AgentEvent) -> None:
        await log.emit(event)
        if isinstance(event, TurnStarted):
            raise Crash

    responses = Responses(BOUGHT, log=log)
    with pytest.raises(Crash):
        await execute(BUY, client=responses, tell=dying, durable=True, background=responses)
    assert (responses.made, log.turns()) == ({}, ["resp_b0"])
    assert (await log.perform(responses)).text == "Tea is hot."
    assert log.turns() == ["resp_b0"]


async def test_a_turn_without_hosted_tools_is_not_made_in_the_background() -> None:
    log = Log()
    responses = Responses(answers("Hi."), log=log)
    response = await log.perform(responses, AgentExecuteRequest(instruction="Hi."))
    assert (response.text, responses.made, log.turns()) == ("Hi.", {}, [None])
    assert "response_id" not in msgspec.to_builtins(log.events[1])


async def test_a_resumed_run_knows_the_hosted_tools_that_its_conversation_has() -> None:
    """It does not read the response that it continues again; the tools are those of its last answer."""
    log, registry = Log(), ToolRegistry([tool("look", lambda: "nice")])
    responses = Responses(answers("Hi."), calls(("look", {})), BOUGHT, log=log)
    first = await execute(BUY, client=responses, tools=registry)
    more = AgentExecuteRequest(instruction="More.", response_continuation_id=first.response_continuation_id)
    responses.retrieved.clear()

    async def dying(event: AgentEvent) -> None:
        await log.emit(event)
        if isinstance(event, TurnCompleted):
            raise Crash

    with pytest.raises(Crash):
        await execute(more, client=responses, tools=registry, tell=dying, durable=True, background=responses)
    assert log.turns() == ["resp_b0"]
    assert (await log.perform(responses, more, registry)).text == "Tea is hot."
    assert (log.turns(), responses.calls) == (["resp_b0", "resp_b1"], 1)
    assert len(responses.retrieved) == 1


# The service of this process

REQUEST: JsonObject = {
    "model": "m",
    "input": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "stream": True,
}


@pytest.fixture
async def services() -> AsyncGenerator[Services, None]:
    settings = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"))
    async with open_services(settings, [Route("m", ScriptedBackend(halting))]) as opened:
        yield opened


GATE: list[asyncio.Event] = []


@pytest.fixture(autouse=True)
def gate() -> asyncio.Event:
    """Opened: the model answers."""
    GATE[:] = [asyncio.Event()]
    return GATE[0]


async def halting(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
    yield [TextDelta("Hel")]
    await GATE[0].wait()
    yield [TextDelta("lo"), Finished("stop")]


def connect(services: Services, tenant: str = "t") -> BackgroundResponses:
    return InProcessBackgroundResponses(TenantService(services, Caller.of(tenant)))


async def read(responses: BackgroundResponses, response_id: str) -> list[JsonObject]:
    async with asyncio.timeout(10), aclosing(responses.follow(response_id)) as events:
        return [event async for event in events]


async def test_a_response_is_submitted_once_and_followed_from_its_first_event(
    services: Services, gate: asyncio.Event
) -> None:
    responses = connect(services)
    response_id = responses.new_id()
    assert await responses.submit(REQUEST, response_id) is None
    assert await responses.submit({"model": "m", "input": "another"}, response_id) is None
    gate.set()
    events = await read(responses, response_id)
    check_order(events)
    assert (events[0]["response"]["id"], events[-1]["type"]) == (response_id, "response.completed")
    ended = await responses.submit(REQUEST, response_id)
    assert ended is not None
    assert json.loads(ended) == events[-1]["response"]
    assert len(await services.store.responses.list_responses("t", limit=9)) == 1


async def test_a_response_that_is_submitted_twice_at_the_same_time_is_made_once(
    services: Services, gate: asyncio.Event
) -> None:
    """A process that has lost its run may still submit the turn."""
    responses = connect(services)
    response_id = responses.new_id()
    await asyncio.gather(*(responses.submit(REQUEST, response_id) for _ in range(2)))
    gate.set()
    ended = (await read(responses, response_id))[-1]["response"]
    assert (ended["status"], ended["output"][0]["content"][0]["text"]) == ("completed", "Hello")


async def test_a_response_that_nobody_works_on_is_continued(
    services: Services, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses, begun = connect(services), list[Any]()

    async def begin(kind: str, tenant: str, ids: Sequence[str]) -> None:
        begun.append((kind, tenant, *ids))

    monkeypatch.setattr(services.background.jobs, "begin", begin)
    response_id = responses.new_id()
    for _ in range(2):
        await responses.submit(REQUEST, response_id)
    assert begun == [("response", "t", response_id)]
    gate.set()
    await read(responses, response_id)


async def test_a_response_is_cancelled_and_an_unknown_one_is_ignored(services: Services) -> None:
    responses = connect(services)
    response_id = responses.new_id()
    await responses.cancel(response_id)
    await responses.submit(REQUEST, response_id)
    await connect(services, "another tenant").cancel(response_id)
    await responses.cancel(response_id)
    ended = (await read(responses, response_id))[-1]
    assert ended["response"]["status"] == "cancelled"


async def test_errors_are_those_of_a_client(services: Services) -> None:
    responses = connect(services)
    with pytest.raises(ResponsesCallFailed) as refused:
        await responses.submit({**REQUEST, "temperature": 9}, responses.new_id())
    assert refused.value.status == 400
    with pytest.raises(ResponsesCallFailed) as unknown:
        await read(responses, responses.new_id())
    assert unknown.value.status == 404
