"""An HTTP transport that calls the application in memory and streams like a socket."""

import asyncio
from collections.abc import AsyncIterator

import httpx2

from antiphon.server.types import ASGIApp, Message, Scope


class MemoryTransport(httpx2.AsyncBaseTransport):
    """Runs each request as a task, and passes its answer on piece by piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Start the request; return with the head of the answer."""
        call = _Call(await request.aread())
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": request.method,
            "path": request.url.path,
            "query_string": request.url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
        }
        call.task = asyncio.get_running_loop().create_task(self._run(scope, call))
        await call.started.wait()
        if call.status is None:
            await call.task  # raises the application's exception
            raise httpx2.RemoteProtocolError("The application sent no answer.")
        return httpx2.Response(call.status, headers=call.headers, stream=_Body(call))

    async def _run(self, scope: Scope, call: "_Call") -> None:
        try:
            await self._app(scope, call.receive, call.send)
        finally:
            call.started.set()
            call.pieces.put_nowait(None)


class _Call:
    """One request in memory, seen from both ends."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self.started = asyncio.Event()
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=0)
        self.task: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message["headers"])
            self.started.set()
        elif message.get("body"):
            self.pieces.put_nowait(message["body"])

    async def close(self) -> None:
        """The client stopped reading."""
        self._gone.set()
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})


class _Body(httpx2.AsyncByteStream):
    def __init__(self, call: _Call) -> None:
        self._call = call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._call.pieces.get()) is not None:
            yield piece

    async def aclose(self) -> None:
        await self._call.close()


def memory_client(app: ASGIApp) -> httpx2.AsyncClient:
    """A client that sends every request to `app`."""
    return httpx2.AsyncClient(transport=MemoryTransport(app), base_url="http://localhost", timeout=None)
