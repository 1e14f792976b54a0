"""A chat-completions server in a process of its own that answers without end, as fast as it can.

The model's name is what it repeats: `text`, `large` (text in deltas of 16 kB), `reasoning`, `arguments` (of one
call) or `calls`. A name may end with a number: so many of them, and then the end. Without a stream it answers
`text` in one piece.
"""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]
BATCH = 500


@dataclass(frozen=True)
class FloodingUpstream:
    """The running server."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def open_answers(self) -> int:
        """How many answers are being sent now."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(b"GET /open HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            received = b""
            while data := connection.recv(4096):
                received += data
        return int(received.partition(b"\r\n\r\n")[2])


@contextmanager
def run_flooding_upstream() -> Generator[FloodingUpstream, None, None]:
    process = subprocess.Popen([sys.executable, "-m", "tests.flooding_upstream"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield FloodingUpstream(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


class _Server:
    def __init__(self) -> None:
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /open"):
            text = str(self.open).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))
            await writer.drain()
            return False
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
        body = json.loads(await reader.readexactly(int(fields.get(b"content-length", b"0"))) or b"{}")
        if not head.startswith(b"POST"):
            _send_json(writer, {"object": "list", "data": []})
            return True
        self.open += 1
        try:
            if body.get("stream"):
                await _flood(writer, body["model"])
            else:
                _send_json(writer, _complete(body["model"]))
                await writer.drain()
        finally:
            self.open -= 1
        return True


def _send_json(writer: asyncio.StreamWriter, value: JsonObject) -> None:
    body = json.dumps(value).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)


def _complete(model: str) -> JsonObject:
    size = int(model.partition("-")[2] or 10**7)
    choice = {"message": {"role": "assistant", "content": "x" * size}, "finish_reason": "stop", "index": 0}
    return {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}


async def _flood(writer: asyncio.StreamWriter, model: str) -> None:
    kind, _, count = model.partition("-")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    left, number = int(count or 0) or sys.maxsize, 0
    while left:
        size = min(BATCH, left)
        data = b"".join(_event(kind, number + at) for at in range(size))
        number, left = number + size, left - size
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()
    data = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
    await writer.drain()


_EVENTS = {
    kind: b'data: {"choices":[{"delta":%b}]}\n\n' % json.dumps(delta).encode()
    for kind, delta in {
        "text": {"content": "x"},
        "large": {"content": "x" * 16_384},
        "reasoning": {"reasoning_content": "x"},
        "arguments": {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]},
    }.items()
}


def _event(kind: str, number: int) -> bytes:
    if kind == "calls" or (kind == "arguments" and number == 0):
        call = {"index": number, "id": f"call_{number}", "function": {"name": "f", "arguments": "{}"}}
        if kind == "arguments":
            call["function"] = {"name": "f", "arguments": '{"a":'}
        return b'data: {"choices":[{"delta":%b}]}\n\n' % json.dumps({"tool_calls": [call]}).encode()
    return _EVENTS[kind]


async def _main() -> None:
    server = await asyncio.start_server(_Server().serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
