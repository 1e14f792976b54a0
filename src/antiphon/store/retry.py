"""Writing to a database that may be away, when nobody waits at a connection: it is waited for."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from antiphon.errors import StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds between two tries."""


async def retry_while_unavailable(what: str, write: Callable[[], Awaitable[None]]) -> None:
    """Write until it is written. `what` says in the log who waits."""
    while True:
        try:
            return await write()
        except (StoreUnavailable, StoreFull) as error:
            logger.warning("%s waits for the database: %s", what, error.message)
        await asyncio.sleep(PAUSE)
