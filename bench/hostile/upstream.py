"""The upstream of the attacked server: chat completions whose behaviour depends on the model's name.

`python -m bench.hostile.upstream` prints its port and serves until it is ended.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

JsonObject = dict[str, Any]
PROVOCATION = "provoke-a-failure"
"""A prompt with this text is answered with a 500 that quotes the prompt, whatever the model."""
FLOOD_PIECE = "endless " * 512
MAX_DECODED_BYTES = 2**20
PIECE_BYTES = 2**16
ENDS_BYTES = 2**10
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
TEXTS = {"json": '{"value": {"a": [1, 2, 3]}}'}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            await answer(writer, await read_body(reader, length))
    writer.close()


async def read_body(reader: asyncio.StreamReader, length: int) -> JsonObject:
    """The body of a request; of a large one only what decides about the answer, which stands at its ends:
    a model's server does not stand still for all while it reads one prompt."""
    if length <= MAX_DECODED_BYTES:
        return json.loads(await reader.readexactly(length) or b"{}")
    start, end = await reader.readexactly(ENDS_BYTES), b""
    length -= len(start)
    while length:
        piece = await reader.read(min(length, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", length)
        length -= len(piece)
        end = (end + piece)[-ENDS_BYTES:]
    model = start.partition(b'"model":"')[2].partition(b'"')[0].decode()
    return {"model": model, "messages": [], "stream": b'"stream":true' in end}


async def answer(writer: asyncio.StreamWriter, body: JsonObject) -> None:
    """Send the answer that the model's name asks for."""
    model = body.get("model", "")
    if PROVOCATION in json.dumps(body.get("messages", "")):
        message = f"I cannot answer {body['messages'][-1]['content']}"
        send_json(writer, 500, {"error": {"message": message, "type": "server_error", "code": "crash"}})
    elif "messages" not in body:
        send_json(writer, 200, {"object": "list", "data": [{"id": "one", "object": "model"}]})
    elif model.startswith("flood"):
        await flood(writer, model)
    elif body.get("stream"):
        send_head(writer)
        for piece in (delta({"content": TEXTS.get(model, "Hi")}), delta({}, "stop")):
            send_chunk(writer, piece)
        send_chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
    else:
        message = {"role": "assistant", "content": TEXTS.get(model, "Hi")}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        send_json(writer, 200, {"id": "c", "object": "chat.completion", "choices": [choice], "usage": USAGE})
    await writer.drain()


async def flood(writer: asyncio.StreamWriter, model: str) -> None:
    """Send text, or calls of tools, until the connection is closed."""
    send_head(writer)
    for piece in endless_calls() if model == "flood-calls" else endless_text():
        send_chunk(writer, piece)
        await writer.drain()
        await asyncio.sleep(0)


def endless_text() -> Iterator[bytes]:
    """One message without an end."""
    piece = delta({"content": FLOOD_PIECE})
    while True:
        yield piece


def endless_calls() -> Iterator[bytes]:
    """Calls without an end."""
    number = 0
    while True:
        function = {"name": "f", "arguments": "{}"}
        call = {"index": number, "id": f"call_{number}", "type": "function", "function": function}
        yield delta({"tool_calls": [call]})
        number += 1


def delta(members: JsonObject, reason: str | None = None) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": members, "finish_reason": reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def send_head(writer: asyncio.StreamWriter) -> None:
    """The head of a stream."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")


def send_chunk(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """A piece of a stream."""
    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))


def send_json(writer: asyncio.StreamWriter, status: int, body: JsonObject) -> None:
    """A complete answer."""
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)


async def main() -> None:
    """Serve on a free port of the loopback interface."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
