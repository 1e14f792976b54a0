"""Upkeep of the store: what has expired is erased, a little at a time."""

import asyncio
import logging

from antiphon.errors import AntiphonError
from antiphon.store.ports import UpkeepStore

logger = logging.getLogger(__name__)

INTERVAL = 60.0
"""Seconds between two sweeps. Nobody waits for them: what has expired is not found anyway."""
PAUSE = 0.05
"""Seconds between two parts of one sweep, so that requests come first."""


async def keep_tidy(store: UpkeepStore) -> None:
    """Sweep now and then, until cancelled."""
    while True:
        try:
            erased = await store.sweep()
        except AntiphonError as error:
            logger.warning("what has expired cannot be erased now: %s", error.message)
            erased = 0
        await asyncio.sleep(PAUSE if erased else INTERVAL)
