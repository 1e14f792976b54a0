"""The fuzzed server in memory: every route, a model that answers at random, and a watch on the log."""

import asyncio
import logging
import random
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendRefused
from antiphon.server.app import App
from antiphon.server.auth import Keys
from antiphon.server.memory import memory_client
from antiphon.server.types import ASGIApp, Message, Receive, Scope, Send
from antiphon.service.routing.router import Route
from antiphon.settings import (
    AgentSettings,
    McpServerSettings,
    McpSettings,
    SealSettings,
    Settings,
    StoreSettings,
)
from antiphon.settings.hosted_tools import WebSearchSettings
from antiphon.tools.declaration import ServerTool
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, ReasoningDelta, RefusalDelta, TextDelta
from antiphon.turn.context import TurnRequest, TurnTool
from antiphon.wiring.application import open_agents
from tests.fuzz.hosted import SERVER_LABEL
from tests.fuzz.routes import OPERATOR_KEY
from tests.server.conftest import never_opened, options
from tests.web.engine_server import running_engine

ANSWER_TIMEOUT_SECONDS = 20.0
TREE = Path(__file__).parents[2]
ARGUMENTS = (
    "{}",
    '{"queries": ["tea"], "query": "tea", "prompt": "tea", "code": "print(1)", "a": 1, "b": 2}',
    '{"query": "tea"}',
    "{\"code\": \"open('a.txt', 'w').write('tea')\"}",
    '{"city": "Rome", "days": 2}',
    '{"input": "12"}',
    '{"a": 1, "b": 2}',
    "not JSON",
    "[1]",
    "",
)
TEXTS = ("Hello", '{"city": "Rome", "days": 2}', "a\u2028b\x00c", "<tool_call>", "```json\n{}\n```", "🤖")


class LoggedErrors(logging.Handler):
    """Collects what the server logs as an error: exceptions that nobody expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record with its traceback."""
        self.records.append(self.format(record))


def random_model(rng: random.Random) -> ScriptedBackend:
    """A model that writes text, reasoning, refusals and calls, whatever it is asked."""

    def play(turn: TurnRequest) -> Sequence[Step]:
        if isinstance(turn.choice, TurnTool):
            return _call(turn.choice.name, rng)
        if turn.tools and rng.random() < 0.4:
            return _call(rng.choice(turn.tools).name, rng)
        text = rng.choice(TEXTS)
        pieces = [[TextDelta(text[at : at + 3])] for at in range(0, len(text), 3)]
        before: list[Step] = [[ReasoningDelta("Let me think.")]] if rng.random() < 0.2 else []
        if rng.random() < 0.05:
            return [*before, [RefusalDelta("No.")], [Finished("stop")]]
        return [*before, *pieces, [Finished(rng.choice(("stop", "stop", "stop", "length")))]]

    return ScriptedBackend(play)


def _call(name: str, rng: random.Random) -> list[Step]:
    return [[CallStarted(0, "call_1", name), CallDelta(0, rng.choice(ARGUMENTS)), Finished("tool_calls")]]


def failing_model() -> ScriptedBackend:
    """A model whose server refuses."""
    return ScriptedBackend([BackendRefused("broken", status=500)])


class FuzzedServer:
    """A client of the application, for HTTP and for WebSockets."""

    def __init__(self, client: httpx2.AsyncClient, logged: LoggedErrors, app: App | None = None) -> None:
        self.client = client
        self.logged = logged
        self._app = app

    @property
    def route_names(self) -> set[str]:
        """The routes that the application serves."""
        assert self._app is not None, "the application of a process is out of sight"
        return set(self._app.routes.names)

    async def frames(self, text: str) -> list[dict[str, Any]]:
        """Send one frame on a new WebSocket; the frames that answer it, up to the end of its turn."""
        assert self._app is not None, "WebSockets are fuzzed in memory"
        to_server: asyncio.Queue[Message] = asyncio.Queue()
        from_server: asyncio.Queue[Message] = asyncio.Queue()
        scope: Scope = {
            "type": "websocket",
            "path": "/v1/responses",
            "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {OPERATOR_KEY}".encode())],
            "extensions": {"websocket.http.response": {}},
        }
        to_server.put_nowait({"type": "websocket.connect"})
        to_server.put_nowait({"type": "websocket.receive", "text": text})

        async def send(message: Message) -> None:
            from_server.put_nowait(message)

        task = asyncio.create_task(self._app(scope, to_server.get, send))
        frames: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                while not frames or not _ends(frames[-1]):
                    message = await from_server.get()
                    if message["type"] == "websocket.send":
                        frames.append(msgspec.json.decode(message["text"]))
        finally:
            to_server.put_nowait({"type": "websocket.disconnect", "code": 1000})
            await asyncio.wait_for(task, ANSWER_TIMEOUT_SECONDS)
        return frames


def _ends(frame: dict[str, Any]) -> bool:
    return "status" in frame or frame["type"] in (
        "response.completed",
        "response.incomplete",
        "response.failed",
    )


def add(a: int, b: int) -> int:
    """Add two numbers, if a person agrees."""
    return a + b


ADD = ServerTool.from_function(add, needs_approval=True)


async def passed_checks(_url: str, model: str, _key: str | None) -> AsyncGenerator[dict[str, Any], None]:
    """A run of the conformance checker with one check."""
    yield {"object": "conformance.check", "name": "one", "outcome": "passed"}
    yield {"object": "conformance.summary", "model": model, "passed": 1}


def addressed(app: App) -> ASGIApp:
    """The application, at an address."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "server": ("127.0.0.1", 80)}, receive, send)

    return serve


def settings_of(search_url: str) -> Settings:
    """Every route and every hosted tool on an in-memory store."""
    program = McpServerSettings(
        command=sys.executable,
        args=("-m", "tests.mcp.sdk_server", "stdio"),
        env={"PYTHONPATH": str(TREE)},
        allowed_tools=("add", "count", "fail", "picture"),
        timeout=ANSWER_TIMEOUT_SECONDS,
    )
    return Settings(
        store=StoreSettings(url="memory:", memory_responses=2000),
        seal=SealSettings(key="seal"),
        agent=AgentSettings(model="m", tools=("tests.fuzz.server:ADD",)),
        web_search=WebSearchSettings(kind="searxng", url=search_url),
        mcp=McpSettings(servers={SERVER_LABEL: program}),
    )


@asynccontextmanager
async def fuzzed_server(rng: random.Random) -> AsyncGenerator[FuzzedServer, None]:
    """A server in memory."""
    logged = LoggedErrors()
    logging.getLogger("antiphon").addHandler(logged)
    keys = Keys((OPERATOR_KEY,), pepper=b"pepper", clock=time.time)
    app = App(never_opened, lambda: "req_1", options(keys=keys, run_checks=passed_checks))
    routes = [Route("m", random_model(rng)), Route("fails", failing_model())]
    try:
        async with running_engine() as engine, open_agents(settings_of(engine.url), routes) as served:
            app.mount(*served)
            async with memory_client(addressed(app)) as client:
                yield FuzzedServer(client, logged, app)
    finally:
        logging.getLogger("antiphon").removeHandler(logged)


@asynccontextmanager
async def server_at(url: str) -> AsyncGenerator[FuzzedServer, None]:
    """A running server; its log is its own."""
    async with httpx2.AsyncClient(base_url=url, timeout=ANSWER_TIMEOUT_SECONDS) as client:
        yield FuzzedServer(client, LoggedErrors())
