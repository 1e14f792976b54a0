"""Comments in a silent event stream, so that no proxy closes its connection."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def heartbeats(
    interval_seconds: float, sent_at: Callable[[], float], send_comment: Callable[[], Awaitable[None]]
) -> AsyncGenerator[None, None]:
    """Inside, send a comment whenever nothing has been sent for `interval_seconds`. `sent_at` is the loop's
    time of what was sent last; `send_comment` must move it."""
    beating = asyncio.create_task(_beat(interval_seconds, sent_at, send_comment))
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


async def _beat(
    interval_seconds: float, sent_at: Callable[[], float], send_comment: Callable[[], Awaitable[None]]
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        silent_seconds = loop.time() - sent_at()
        if silent_seconds < interval_seconds:
            await asyncio.sleep(interval_seconds - silent_seconds)
        else:
            await send_comment()
