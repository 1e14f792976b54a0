"""Keeping a response once it has ended: commit, then tell."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.errors import StoreUnavailable
from antiphon.protocol.events import Event
from antiphon.store.base import StoredResponse
from antiphon.store.ports import ResponseStore

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class ResponseWriter(Protocol):
    """Makes an ended response last. What it cannot keep must not be told to anybody."""

    async def keep(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """Keep the response; `events` are its last ones, not told yet."""
        ...


@dataclass(frozen=True, slots=True)
class StoreWriter:
    """Saves to the store. A database that is away gets `patience` seconds to come back."""

    store: ResponseStore
    tenant: str
    patience: float

    async def keep(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """Save; the events of a foreground response are not kept."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self.patience, FIRST_PAUSE
        while True:
            try:
                return await self.store.save(self.tenant, stored)
            except StoreUnavailable:
                if loop.time() + pause > deadline:
                    raise
                logger.warning("response %s waits for the database", stored.response.id)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
