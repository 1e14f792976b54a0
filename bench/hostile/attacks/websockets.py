"""WebSocket messages that grow: deflate bombs and fragments."""

import asyncio
import zlib
from contextlib import suppress

from bench.hostile.client import CONTINUATION_FRAME, DEFLATED_BIT, FINAL_BIT, HostileClient, frame
from bench.hostile.registry import attack

BOMB_BYTES = 31 * 2**20


def bomb() -> bytes:
    """31 MB of JSON in 31 kB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packer.compress(b'{"type": "response.create", "model": "one", "input": "')
    data += packer.compress(b"x" * BOMB_BYTES) + packer.compress(b'"}')
    data += packer.flush(zlib.Z_SYNC_FLUSH)
    return data.removesuffix(b"\x00\x00\xff\xff")


BOMB = bomb()


@attack("WebSocket deflate bombs", parallel=20)
async def deflate_bombs(client: HostileClient) -> None:
    """20 connections, each with messages of 31 kB that inflate to 31 MB."""
    async with client.connect() as connection:
        with suppress(OSError, asyncio.IncompleteReadError):
            if await client.websocket(connection, deflate=True):
                for _ in range(4):
                    await connection.send(frame(BOMB, bits=FINAL_BIT | DEFLATED_BIT))
                await connection.reader.read(2**16)


@attack("WebSocket deflate bombs, unfinished", parallel=20)
async def unfinished_bombs(client: HostileClient) -> None:
    """20 connections that hold an inflated message whose last fragment does not come."""
    async with client.connect() as connection:
        with suppress(OSError, asyncio.IncompleteReadError):
            if await client.websocket(connection, deflate=True):
                await connection.send(frame(BOMB, bits=DEFLATED_BIT))
                await connection.reader.read(2**16)


@attack("WebSocket fragment flood")
async def fragment_flood(client: HostileClient) -> None:
    """Messages of fragments of one byte, and of none, without an end."""
    pieces = (frame(b"x", CONTINUATION_FRAME, 0) + frame(b"", CONTINUATION_FRAME, 0)) * 4000
    async with client.connect() as connection:
        with suppress(OSError, asyncio.IncompleteReadError):
            if await client.websocket(connection):
                await connection.send(frame(b"x", bits=0))
                while True:
                    await connection.send(pieces)
