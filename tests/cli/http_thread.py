"""An aiohttp application on a free port, in its own thread: commands run their own event loop."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

from aiohttp import web

SECONDS = 10


@contextmanager
def serving(app: web.Application) -> Generator[str, None, None]:
    """The base URL of the application, until the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    try:
        port = asyncio.run_coroutine_threadsafe(_start(runner), loop).result(SECONDS)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


async def _start(runner: web.AppRunner) -> int:
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return int(runner.addresses[0][1])
