"""A heartbeat for batches that may be long in coming."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from antiphon.turn.chunks import Chunk


async def with_pulse(
    batches: AsyncGenerator[Sequence[Chunk], None], heartbeat: float
) -> AsyncGenerator[Sequence[Chunk], None]:
    """The same batches, and an empty one after each `heartbeat` seconds without any."""
    coming: asyncio.Task[Sequence[Chunk] | None] | None = None
    try:
        while True:
            coming = asyncio.create_task(_next(batches))
            while not coming.done():
                await asyncio.wait({coming}, timeout=heartbeat)
                if not coming.done():
                    yield ()
            batch = coming.result()
            if batch is None:
                return
            yield batch
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await batches.aclose()


async def _next(batches: AsyncGenerator[Sequence[Chunk], None]) -> Sequence[Chunk] | None:
    return await anext(batches, None)
