"""The client of a hostile tenant: requests, raw connections and WebSocket frames, all counted."""

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

JsonObject = dict[str, Any]
ANSWER_TIMEOUT_SECONDS = 8.0
SMALL_BUFFER_BYTES = 4096
"""The receive buffer of a client that does not read."""
WEBSOCKET_KEY = "AAAAAAAAAAAAAAAAAAAAAA=="


@dataclass
class Tally:
    """The requests of one attack, and how they were answered."""

    requests: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    notes: dict[str, float] = field(default_factory=dict[str, float])

    def note_most(self, what: str, value: float) -> None:
        """Keep the greatest value of a measurement."""
        self.notes[what] = max(value, self.notes.get(what, value))

    def add(self, what: str) -> None:
        """Count something that must not happen."""
        self.notes[what] = self.notes.get(what, 0) + 1


@dataclass(frozen=True)
class Answer:
    """An answer of the server; status 0: the connection was closed, -1: a timeout."""

    status: int
    body: bytes = b""

    @property
    def json(self) -> JsonObject:
        """The body as an object; empty if it is none."""
        try:
            value: object = json.loads(self.body)
        except ValueError:
            return {}
        return cast("JsonObject", value) if isinstance(value, dict) else {}

    @property
    def outcome(self) -> str:
        """The status, with the code of an error."""
        if self.status <= 0:
            return "closed" if self.status == 0 else "timeout"
        error = self.json.get("error")
        code = cast("JsonObject", error).get("code") if isinstance(error, dict) else None
        return f"{self.status} {code}" if code else str(self.status)


class Connection:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send; waits while the server does not read."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> Answer:
        """The next answer with its body, which ends with the connection or its length."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return await self._answer()
        except TimeoutError:
            return Answer(-1)
        except (OSError, asyncio.IncompleteReadError):
            return Answer(0)

    async def _answer(self) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ", 2)[1])
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        body = await (self.reader.readexactly(int(length)) if length else self.reader.read())
        return Answer(status, body)

    def close(self) -> None:
        """Close at once, without sending the rest."""
        self._writer.transport.abort()


class Canceller:
    """The process that cancels responses, and times it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[str, asyncio.Future[tuple[float, str]]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, port: int, key: str) -> "Canceller":
        """Start the process; it has the priority of this one."""
        command = (sys.executable, "-m", "bench.hostile.canceller", str(port), key)
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))

    async def cancel(self, response_id: str) -> tuple[float, str]:
        """Cancel a response; the seconds until the answer, and its status."""
        assert self._process.stdin is not None
        result = self._waiting[response_id] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(f"{response_id}\n".encode())
        return await result

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            response_id, seconds, status = line.decode().split()
            waiting = self._waiting.pop(response_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result((float(seconds), status))

    async def end(self) -> None:
        """End the process."""
        self._reading.cancel()
        self._process.kill()
        await self._process.wait()


class HostileClient:
    """What attacks use. `key` is that of the hostile tenant, `other_key` that of the healthy one."""

    def __init__(self, port: int, key: str, other_key: str, canceller: Canceller) -> None:
        self.port = port
        self.key = key
        self.other_key = other_key
        self.tally = Tally()
        self.canceller = canceller

    @asynccontextmanager
    async def connect(self, *, reads: bool = True) -> AsyncGenerator[Connection, None]:
        """A connection; one that does not read has the smallest buffer."""
        raw = socket.socket()
        raw.setblocking(False)
        if not reads:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
        try:
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self.port))
        except OSError:
            raw.close()
            raise
        limit = 2**20 if reads else SMALL_BUFFER_BYTES
        connection = Connection(*await asyncio.open_connection(sock=raw, limit=limit))
        self.tally.requests += 1
        try:
            yield connection
        finally:
            connection.close()

    def head(
        self, target: str, *headers: str, key: str | None = None, media: str = "application/json"
    ) -> bytes:
        """The head of a request with a key."""
        lines = (target + " HTTP/1.1", "host: localhost", f"authorization: Bearer {key or self.key}")
        return "\r\n".join((*lines, f"content-type: {media}", *headers, "", "")).encode()

    async def post(
        self, path: str, body: JsonObject | bytes, *, key: str | None = None, media: str = "application/json"
    ) -> Answer:
        """Post a body and read the answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        length = f"content-length: {len(content)}"
        head = self.head(f"POST {path}", length, "connection: close", key=key, media=media)
        async with self.connect() as connection:
            with suppress(OSError):  # refused before the body was read: the answer says why
                await connection.send(head + content)
            answer = await connection.answer()
        self.tally.outcomes[answer.outcome] += 1
        return answer

    async def create(self, **params: Any) -> Answer:
        """Create a response."""
        return await self.post("/v1/responses", {"model": "one", "input": "x", "store": False, **params})

    async def websocket(self, connection: Connection, *, deflate: bool = False) -> bool:
        """The handshake of a WebSocket; whether it was accepted."""
        extensions = ("sec-websocket-extensions: permessage-deflate",) if deflate else ()
        head = self.head(
            "GET /v1/responses",
            "connection: Upgrade",
            "upgrade: websocket",
            "sec-websocket-version: 13",
            f"sec-websocket-key: {WEBSOCKET_KEY}",
            *extensions,
        )
        await connection.send(head)
        answer = await connection.reader.readuntil(b"\r\n\r\n")
        status = int(answer.split(b" ", 2)[1])
        self.tally.outcomes[str(status)] += 1
        return status == 101


TEXT_FRAME, CONTINUATION_FRAME = 1, 0
FINAL_BIT, DEFLATED_BIT = 0x80, 0x40


def frame(payload: bytes, kind: int = TEXT_FRAME, bits: int = FINAL_BIT) -> bytes:
    """A WebSocket frame of a client, masked with zeros."""
    size = len(payload)
    if size < 126:
        length = bytes((0x80 | size,))
    elif size < 2**16:
        length = b"\xfe" + struct.pack("!H", size)
    else:
        length = b"\xff" + struct.pack("!Q", size)
    return bytes((bits | kind,)) + length + bytes(4) + payload
