"""Bytes before any key is checked: heads, trailers, malformed requests, slow and idle connections."""

import asyncio
from contextlib import AsyncExitStack, suppress

from bench.hostile.client import Connection, HostileClient
from bench.hostile.registry import attack

START = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\n"
PIECE_BYTES = 2**16
MALFORMED = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
    b"GET / HTTP/2.0\r\nhost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET  /healthz  HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\nhost: localhost\n\n",
    b"GET /healthz HTTP/1.1\r\nhost : localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nhost: localhost:evil\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: a\r\n b\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: \x00\r\n\r\n",
    b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    START + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    START + b"content-length: -1\r\n\r\n",
    START + b"content-length: 1, 2\r\n\r\n",
    START + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    START + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    START + b"transfer-encoding: chunked\r\n\r\n1;" + b"e" * 50_000 + b"\r\n",
)


async def send_without_end(client: HostileClient, start: bytes, piece: bytes) -> None:
    """Send the start, then the piece again and again until the server closes the connection."""
    async with client.connect() as connection:
        try:
            await connection.send(start)
            while True:
                await connection.send(piece)
        except OSError:
            client.tally.outcomes["closed"] += 1


def repeated(line: bytes) -> bytes:
    """About 64 kB of a line."""
    return line * (PIECE_BYTES // len(line))


@attack("many small headers")
async def many_headers(client: HostileClient) -> None:
    """A head without an end, of small headers."""
    await send_without_end(client, START, repeated(b"a:b\r\n"))


@attack("one endless header value")
async def endless_header(client: HostileClient) -> None:
    """A head without an end, of one value."""
    await send_without_end(client, START + b"x: ", b"y" * PIECE_BYTES)


@attack("many trailers")
async def many_trailers(client: HostileClient) -> None:
    """A chunked body whose trailers do not end."""
    head = client.head("POST /v1/responses", "transfer-encoding: chunked")
    await send_without_end(client, head + b"2\r\n{}\r\n0\r\n", repeated(b"a:b\r\n"))


@attack("malformed HTTP", parallel=8)
async def malformed(client: HostileClient) -> None:
    """Requests that are not HTTP, or ambiguous."""
    for data in MALFORMED:
        async with client.connect() as connection:
            with suppress(OSError):
                await connection.send(data)
            answer = await answer_or_end(connection)
            client.tally.outcomes[answer] += 1


async def answer_or_end(connection: Connection) -> str:
    """The status of the answer; a request that is incomplete gets none."""
    try:
        async with asyncio.timeout(1):
            line = await connection.reader.readline()
    except TimeoutError:
        return "waits for more"
    except (OSError, ValueError):
        return "closed"
    return line.split(b" ", 2)[1].decode("latin-1") if line.startswith(b"HTTP/1.1 ") else "closed"


@attack("slow bodies", parallel=1)
async def slow_bodies(client: HostileClient) -> None:
    """200 bodies that arrive byte by byte."""
    head = client.head("POST /v1/responses", "content-length: 1000000")
    await hold(client, 200, head + b'{"model": "one", "input": "', b"x")


@attack("many connections", parallel=1)
async def many_connections(client: HostileClient) -> None:
    """1,000 connections: half of them idle, half in the middle of a head."""
    async with AsyncExitStack() as connections:
        for number in range(1000):
            with suppress(OSError):
                connection = await connections.enter_async_context(client.connect())
                if number % 2:
                    await connection.send(START)
        await asyncio.Event().wait()


async def hold(client: HostileClient, number: int, start: bytes, drip: bytes) -> None:
    """Hold connections that send a little now and then."""
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(client.connect()) for _ in range(number)]
        for connection in connections:
            await connection.send(start)
        while True:
            await asyncio.sleep(0.2)
            for connection in connections:
                with suppress(OSError):
                    await connection.send(drip)
