"""Scripted servers on free ports: model servers of every kind, and programs that are none."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

THREAD_SECONDS = 20
OWNERS = {"ollama": "library", "vllm": "vllm", "llama.cpp": "llamacpp"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class ScriptedServer:
    """A model server of this kind. It records the paths and headers that it was sent."""

    kind: str = "plain"
    models: list[str] | None = field(default_factory=lambda: ["m"])
    key: str = ""
    status: int = 200
    paths: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    questions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.status != 200:
            return web.json_response({"error": {"message": "Loading model"}}, status=self.status)
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return web.json_response({"error": "unauthorized"}, status=401)
        match request.path:
            case "/v1/models":
                owner = OWNERS.get(self.kind, "organization_owner")
                rows = [{"id": name, "object": "model", "owned_by": owner} for name in self.models or []]
                data = None if self.models is None else rows
                return web.json_response({"object": "list", "data": data})
            case "/api/version" if self.kind == "ollama":
                return web.json_response({"version": "0.12.0"})
            case "/api/v0/models" if self.kind == "lm-studio":
                return web.json_response(
                    {"data": [{"id": name, "type": "llm"} for name in self.models or []]}
                )
            case "/v1/chat/completions":
                self.questions.append(await request.json())
                message = {"role": "assistant", "content": f"I am {self.questions[-1]['model']}."}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                return web.json_response({"id": "c", "object": "chat.completion", "choices": [choice]})
            case _ if self.kind == "lm-studio":
                return web.json_response({"error": f"Unexpected endpoint or method. ({request.path})"})
            case _:
                return web.json_response({"error": "not found"}, status=404)


@asynccontextmanager
async def serving(handler: Handler, port: int = 0) -> AsyncGenerator[str, None]:
    """The address of a server that answers everything with this handler."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def model_server(
    kind: str = "plain", *models: str, port: int = 0
) -> AsyncGenerator[tuple[ScriptedServer, str], None]:
    """A model server, and its address."""
    server = ScriptedServer(kind, list(models))
    async with serving(server.answer, port) as address:
        yield server, address


@asynccontextmanager
async def hanging_server() -> AsyncGenerator[str, None]:
    """The address of a server that accepts connections and never answers."""

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def closed_address() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def in_thread(server: Callable[[], AbstractAsyncContextManager[str]]) -> Generator[str, None, None]:
    """Run the server in a thread, because commands run their own event loop."""
    loop, stop, started = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    addresses: list[str] = []

    async def serve() -> None:
        async with server() as address:
            addresses.append(address)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(THREAD_SECONDS)
    try:
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(THREAD_SECONDS)
        loop.close()
