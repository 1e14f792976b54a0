"""The end of a response: save it, then send the last events. A response that cannot be saved has failed."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import AntiphonError, NotFound, RequestError, StoreUnavailable
from antiphon.protocol.events import Event
from antiphon.protocol.ids import Clock
from antiphon.protocol.response import Response
from antiphon.service.responses.context import Context, Session
from antiphon.service.responses.history import storable_items
from antiphon.service.responses.record import RunRecord
from antiphon.service.responses.session import MAX_BYTES
from antiphon.store.base import Continuation, StoredResponse
from antiphon.store.ports import ResponseStore
from antiphon.turn.machine import Machine
from antiphon.turn.private_sides import stored_sides
from antiphon.turn.sealing import Sealer

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 2.0
SHUTDOWN_WAIT_SECONDS = 1.0
"""How long a save waits for the database when the server shuts down."""


class ResponseWriter(Protocol):
    """Persists an ended response. Nothing that it cannot persist may be sent."""

    async def save(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """Persist the response; `events` are its last ones, which are not sent yet."""
        ...

    def hurried(self) -> "ResponseWriter":
        """The same for a server that shuts down."""
        ...


@dataclass(frozen=True, slots=True)
class StoreWriter:
    """Saves to the store. If the database is unavailable, it retries for `wait_seconds`."""

    store: ResponseStore
    tenant: str
    wait_seconds: float

    async def save(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """Save the response; the events of a foreground response are not stored."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self.wait_seconds, FIRST_RETRY_SECONDS
        while True:
            try:
                return await self.store.save(self.tenant, stored)
            except StoreUnavailable:
                if loop.time() + pause > deadline:
                    raise
                logger.warning("response %s waits for the database", stored.response.id)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    def hurried(self) -> "StoreWriter":
        """Wait no longer than a server that shuts down can."""
        return StoreWriter(self.store, self.tenant, min(self.wait_seconds, SHUTDOWN_WAIT_SECONDS))


class Retention(Struct, frozen=True, kw_only=True):
    """How long responses are stored, and how long a save waits for the database."""

    lifetime_seconds: int | None = None
    """None: for ever."""
    save_wait_seconds: float = 30.0

    def expires_at(self, clock: Clock) -> int | None:
        """When a response that is made now expires."""
        return None if self.lifetime_seconds is None else int(clock()) + self.lifetime_seconds


@dataclass(slots=True)
class Finisher:
    """Ends one response. Without a writer it is saved nowhere, but its session may remember it."""

    clock: Clock
    writer: ResponseWriter | None
    session: Session | None
    retention: Retention
    record: RunRecord
    sealer: Sealer
    inherited_tools: bool = True
    """Whether a continuation may inherit the tools; otherwise nobody needs their credentials any more."""
    trace: bytes | None = None
    """The sealed trace of the run, if one is recorded."""

    def hurry(self) -> None:
        """The server shuts down: do not wait long for the database."""
        if self.writer is not None:
            self.writer = self.writer.hurried()

    async def finish(self, machine: Machine, context: Context, unsent: Sequence[Event] = ()) -> list[Event]:
        """Save, then give the events that are left to send: `unsent`, and the last ones."""
        now = int(self.clock())
        events = [*unsent, *machine.end(now)]
        if machine.private:
            context = replace(context, private={**context.private, **stored_sides(machine.private)})
        self.record.record_events(events)
        try:
            if self.writer is not None:
                if self.record.trace is not None:
                    self.trace = await self.record.sealed_trace(self.sealer)
                await self._save(self.writer, machine.response, context, events)
        except AntiphonError as error:
            logger.error("response %s could not be saved: %s", machine.response.id, error.message)
            events = [*unsent, *machine.end(now, save_error=error)]
            await self._save_failure(machine.response, context, events, error)
        else:
            self._remember(machine.response, context)
        return events

    async def _save(
        self, writer: ResponseWriter, response: Response, context: Context, events: Sequence[Event]
    ) -> None:
        try:
            await writer.save(self._record(response, context), events)
        except NotFound:
            if not context.history_is_stored or context.request.params.previous_response_id is None:
                raise
            # The response that it continues was deleted meanwhile: its history is stored with it.
            orphan = replace(context, history_is_stored=False)
            await writer.save(self._record(response, orphan), events)

    async def _save_failure(
        self, response: Response, context: Context, events: Sequence[Event], error: AntiphonError
    ) -> None:
        """A store that rejects a response, because its conversation was taken by another one, still takes it
        as failed. A store that is unavailable is not tried again."""
        if isinstance(error, RequestError) and self.writer is not None:
            with suppress(AntiphonError):
                await self.writer.save(self._record(response, context), events)

    def _record(self, response: Response, context: Context) -> StoredResponse:
        request = context.request
        items = request.items if context.history_is_stored else (*context.history, *request.items)
        return StoredResponse(
            response=response,
            parent=request.params.previous_response_id if context.history_is_stored else None,
            conversation=request.conversation_id,
            input=storable_items(items),
            expires_at=self.retention.expires_at(self.clock),
            private=context.private,
            sealed_tools=context.sealed_tools if self.inherited_tools else None,
            stats=self.record.stats(asyncio.get_running_loop().time()),
            trace=self.trace,
        )

    def _remember(self, response: Response, context: Context) -> None:
        request = context.request
        if self.session is not None and not request.stored and request.input_bytes <= MAX_BYTES:
            items = (*context.history, *request.items, *response.output)
            known = Continuation(items, request.tools, context.private, size=request.input_bytes)
            self.session.remember(response, known)
