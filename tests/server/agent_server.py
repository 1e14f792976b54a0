"""The application in memory, with an agent on a scripted model, and any number of tenants."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import SCOPES
from antiphon.orchestrator.agent import AgentServices
from antiphon.server.app import App, Served
from antiphon.server.auth import Keys
from antiphon.server.memory import memory_client
from antiphon.service.keys import Keyring
from antiphon.service.routing.router import Route
from antiphon.settings import AgentSettings, SealSettings, Settings, StoreSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta
from antiphon.turn.context import TurnRequest, TurnTool
from antiphon.wiring.application import open_agents
from tests.server.conftest import never_opened, options

NOW = 1_000_000_000.0
ADDING = AgentSettings(model="m", tools=("tests.server.agent_server:add",))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def text_turn(*texts: str) -> list[Step]:
    """A turn with text."""
    return [*([TextDelta(delta)] for delta in texts), [Finished("stop")]]


def calling(name: str, arguments: str, call_id: str = "call_1") -> list[Step]:
    """A turn with one call."""
    return [[CallStarted(0, call_id, name), CallDelta(0, arguments), Finished("tool_calls")]]


def hello_backend() -> ScriptedBackend:
    return ScriptedBackend(text_turn("Hel", "lo"))


def obeying() -> ScriptedBackend:
    """A model that makes the forced call, and answers hello otherwise."""
    return ScriptedBackend(
        lambda turn: (
            calling(turn.choice.name, "{}") if isinstance(turn.choice, TurnTool) else text_turn("Hel", "lo")
        )
    )


def adding() -> ScriptedBackend:
    return ScriptedBackend(calling("add", '{"a":1,"b":2}'), text_turn("It", " is 3."))


class Hanging:
    """A model that sends one text delta and then hangs; records that it was stopped."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.go_on = asyncio.Event()
        self.stopped = asyncio.Event()
        self.backend = ScriptedBackend(self.steps)

    async def steps(self, _turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("a")]
            self.requested.set()
            await self.go_on.wait()
            yield [Finished("stop")]
        finally:
            self.stopped.set()


@dataclass(frozen=True)
class AgentServer:
    """A client of the application, with its services."""

    client: httpx2.AsyncClient
    app: App
    served: Served
    new_key: Callable[..., Awaitable[httpx2.Headers]]

    @property
    def agents(self) -> AgentServices:
        assert self.served.agents is not None
        return self.served.agents

    async def execute(self, query: str = "", **body: Any) -> httpx2.Response:
        return await self.client.post(f"/v1/agent/execute{query}", json=body)

    async def submit(self, **body: Any) -> dict[str, Any]:
        answer = await self.client.post("/v1/agent/runs", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def followed(self, run_id: str, query: str = "", **headers: Any) -> list[dict[str, Any]]:
        """The events of a run, until its end."""
        answer = await self.client.get(f"/v1/agent/runs/{run_id}?stream=true{query}", **headers)
        assert answer.status_code == 200, answer.text
        return events_of(answer.text)


@asynccontextmanager
async def open_agent_server(
    backend: ScriptedBackend, agent: AgentSettings = ADDING, *, heartbeat: float = 10.0, **limits: int
) -> AsyncGenerator[AgentServer, None]:
    """An application whose agent uses this model and an in-memory store."""
    settings = Settings(store=StoreSettings(url="memory:"), seal=SealSettings(key="seal"), agent=agent)
    keys = Keys((), pepper=b"pepper", clock=lambda: NOW)
    app = App(never_opened, lambda: "req_1", options(keys=keys, heartbeat=heartbeat, **limits))
    async with open_agents(settings, [Route("m", backend)]) as served:
        numbers = iter(range(1, 1000))
        ring = Keyring(
            served.services.store.keys,
            served.services.store.signals,
            pepper=b"pepper",
            clock=lambda: NOW,
            entropy=lambda size: next(numbers).to_bytes(size, "big"),
        )

        async def new_key(tenant: str, *scopes: str, tools: Collection[str] | None = None) -> httpx2.Headers:
            key, _ = await ring.create(tenant=tenant, scopes=scopes or SCOPES, tools=tools)
            await keys.refresh(served.services.store.keys)
            return httpx2.Headers({"authorization": f"Bearer {key}"})

        app.mount(*served)
        async with memory_client(app) as client:
            yield AgentServer(client, app, served, new_key)


def events_of(stream: str) -> list[dict[str, Any]]:
    """The events of a complete stream, after checking each name and the end marker."""
    blocks = stream.strip().split("\n\n")
    assert blocks.pop() == "data: [DONE]"
    events: list[dict[str, Any]] = []
    for block in blocks:
        if block.startswith(":"):
            continue
        named, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert named == f"event: {event.get('type') or event.get('Type')}"
        events.append(event)
    return events


def types_of(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]
