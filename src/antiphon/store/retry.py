"""Retry writes of background work while the database is unavailable."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from antiphon.errors import StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Time between two attempts."""


async def retry_while_unavailable(what: str, write: Callable[[], Awaitable[None]]) -> None:
    """Call `write` until it succeeds. `what` names the waiting work in the log."""
    while True:
        try:
            return await write()
        except (StoreUnavailable, StoreFull) as error:
            logger.warning("%s waits for the database: %s", what, error.message)
        await asyncio.sleep(RETRY_SECONDS)
