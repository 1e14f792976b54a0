"""The log of a background response: events are persisted in batches, then sent to followers.

Only stored events are sent, so all followers receive the same bytes.
"""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TypeGuard, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import AntiphonError, StoreFull, StoreUnavailable
from antiphon.protocol.events import (
    EVENT_TYPES,
    CustomToolCallInputDelta,
    Event,
    FunctionCallArgumentsDelta,
    OutputTextDelta,
    ReasoningTextDelta,
)
from antiphon.protocol.response import Response
from antiphon.protocol.sse import RepeatingRenderer, SseReader, SseRenderer
from antiphon.store.base import (
    LOG_GAP,
    NONE_PRIVATE,
    Events,
    Fenced,
    PrivateSides,
    Progress,
    StoredResponse,
)
from antiphon.store.ports import BackgroundStore
from antiphon.store.retry import retry_while_unavailable
from antiphon.store.signals import Signals

FLUSH_SECONDS = 0.02
"""Events of this period are stored together."""
MAX_ROW_EVENTS = 512
MAX_ROW_BYTES = 256 * 1024
"""The size of a row; an event that is larger has one of its own."""
LARGE_LOG_BYTES = 1024 * 1024
"""Of a log whose end is stored apart from what others store."""
MAX_READ_AT_ONCE_BYTES = 256 * 1024
MAX_WAITING_EVENTS = 4096
MAX_WAITING_BYTES = 1024 * 1024
"""Beyond these the model has to wait for the store. The bytes are those of the deltas."""


_TYPE = b'{"type":"'
_DECODERS = {name.encode(): msgspec.json.Decoder(kind) for name, kind in EVENT_TYPES.items()}
_MERGED = (OutputTextDelta, ReasoningTextDelta, FunctionCallArgumentsDelta, CustomToolCallInputDelta)
_TextDelta = OutputTextDelta | ReasoningTextDelta | FunctionCallArgumentsDelta | CustomToolCallInputDelta


async def read_log(rows: Sequence[Events]) -> list[Event]:
    """The events of a log, for the next attempt: consecutive deltas are one. A long log is read in a thread,
    so that nothing else waits for it."""
    if sum(len(row.data) for row in rows) <= MAX_READ_AT_ONCE_BYTES:
        return _read_merged(rows)
    return await asyncio.to_thread(_read_merged, rows)


def _read_merged(rows: Sequence[Events]) -> list[Event]:
    events: list[Event] = []
    texts: list[str] = []
    """Of the deltas that the last event stands for; empty if it is no delta."""
    item_id = ""
    for row in rows:
        for event in read_events(row.data):
            if not _is_text(event):
                _close_merged(events, texts)
                events.append(event)
                continue
            if texts and type(event) is type(events[-1]) and event.item_id == item_id:
                events[-1] = event
            else:
                _close_merged(events, texts)
                events.append(event)
                item_id = event.item_id
            texts.append(event.delta)
    _close_merged(events, texts)
    return events


def _is_text(event: Event) -> TypeGuard[_TextDelta]:
    """Whether deltas like this one can be joined. Between two parts of an item there are other events."""
    return isinstance(event, _MERGED) and not (type(event) is OutputTextDelta and event.logprobs)


def _close_merged(events: list[Event], texts: list[str]) -> None:
    """Give the last event all texts that it stands for."""
    if len(texts) > 1:
        events[-1] = replace(cast("_TextDelta", events[-1]), delta="".join(texts))
    texts.clear()


def read_events(data: bytes) -> list[Event]:
    """Rendered events, read back."""
    return [_read(payload) for payload in SseReader().feed(data)]


def _read(data: bytes) -> Event:
    return _DECODERS[data[len(_TYPE) : data.index(b'"', len(_TYPE))]].decode(data)


def render(events: Sequence[Event], renderer: SseRenderer | None = None) -> Events:
    """Consecutive events in their stored form."""
    data = (renderer or SseRenderer()).render(events)
    return Events(events[0].sequence_number, len(events), data)


class UnstoredEvents(Struct, frozen=True):
    """Consecutive events that are rendered row by row, as they are stored."""

    events: Sequence[Event]
    large: bool = False
    """Whether they are those of a large answer, whose text the last events repeat."""

    @property
    def first(self) -> int:
        """The number of the first event."""
        return self.events[0].sequence_number

    @property
    def count(self) -> int:
        """The number of events."""
        return len(self.events)

    def rows(self, renderer: SseRenderer | None = None) -> Iterator[Events]:
        """Rows that are stored and read in a moment, except for events that are too large for that."""
        renderer = renderer or (RepeatingRenderer(secrets.token_hex(16)) if self.large else SseRenderer())
        first, size, pieces = self.first, 0, list[bytes]()
        for event in self.events:
            data = renderer.render((event,))
            if pieces and (size + len(data) > MAX_ROW_BYTES or len(pieces) == MAX_ROW_EVENTS):
                yield Events(first, len(pieces), b"".join(pieces))
                first, size, pieces = event.sequence_number, 0, []
            pieces.append(data)
            size += len(data)
        if pieces:
            yield Events(first, len(pieces), b"".join(pieces))


def _delta_bytes(events: Sequence[Event]) -> int:
    return sum(len(event.delta) for event in events if isinstance(event, _MERGED))


def rest(row: Events, number: int) -> bytes:
    """The events of a row with higher numbers."""
    skipped = number + 1 - row.first
    if skipped <= 0:
        return row.data
    return b"\n\n".join(row.data.split(b"\n\n")[skipped:])


class Unkept(Exception):
    """The database has lost events that were not durable: the next attempt continues from the stored ones."""


class EventLog:
    """Writes the log of one claimed response. Also the keeper of its end."""

    def __init__(
        self,
        store: BackgroundStore,
        signals: Signals,
        tenant: str,
        response_id: str,
        token: int,
        *,
        stored_bytes: int = 0,
    ) -> None:
        self._store = store
        self._signals = signals
        self._tenant = tenant
        self._id = response_id
        self._token = token
        self._waiting: list[Event] = []
        self._private: dict[str, str] = {}
        """The private sides of items that end in the waiting events."""
        self._progress: Progress | None = None
        self._stored_progress: Progress | None = None
        self._waiting_bytes = 0
        self._renderer = SseRenderer()
        self._more = asyncio.Event()
        self._shrunk = asyncio.Event()
        self._writing = asyncio.Lock()
        self._append: asyncio.Future[None] | None = None
        """A write to the store that goes on, whatever is cancelled here."""
        self._held = False
        self.stored_bytes = stored_bytes
        self.saved: Response | None = None
        """The final response, when it is stored."""

    def add(
        self,
        events: Sequence[Event],
        private: PrivateSides = NONE_PRIVATE,
        progress: Progress | None = None,
    ) -> None:
        """Events that were just made, the private sides of items that end in them, and what the response has
        used until then. The latter is stored with the next events, not by itself."""
        self._waiting += events
        self._progress = progress
        if private:
            self._private |= private
        self._waiting_bytes += _delta_bytes(events)
        if self._waiting:
            self._more.set()

    def hold(self, events: Sequence[Event]) -> None:
        """Events that must not be stored before the end is: with them the model's turn is over, and a crash
        in between would look as if it were not."""
        self._held = True
        self._waiting += events
        self._waiting_bytes += _delta_bytes(events)

    @property
    def crowded(self) -> bool:
        """Whether so many events wait to be stored that no more should be made."""
        return len(self._waiting) > MAX_WAITING_EVENTS or self._waiting_bytes > MAX_WAITING_BYTES

    async def room(self) -> None:
        """Wait until it is no longer crowded."""
        while self.crowded:
            self._shrunk.clear()
            await self._shrunk.wait()

    async def write(self) -> None:
        """Store added events until cancelled. Raises `Fenced` if another owner has claimed the response."""
        while True:
            await self._more.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Store the pending events. They are removed from the queue after they are stored."""
        async with self._writing:
            self._more.clear()
            await self._settle_earlier()
            while self._waiting and not self._held:
                events = next(UnstoredEvents(self._waiting).rows(self._renderer))
                if self._private:
                    events = replace(events, private=dict(self._private))
                if self._progress != self._stored_progress:
                    events = replace(events, progress=self._progress)
                await retry_while_unavailable(
                    f"the background response {self._id}", lambda events=events: self._store_row(events)
                )

    async def _store_row(self, events: Events) -> None:
        self._append = asyncio.ensure_future(self._add_row(events))
        await self._settle()

    async def _add_row(self, events: Events) -> None:
        await self._store.append(self._tenant, self._id, self._token, events)
        self._waiting_bytes -= _delta_bytes(self._waiting[: events.count])
        del self._waiting[: events.count]
        for item_id in events.private:
            self._private.pop(item_id, None)
        self._stored_progress = events.progress or self._stored_progress
        self.stored_bytes += len(events.data)
        self._shrunk.set()
        self._signals.publish(f"events:{self._id}")

    async def _settle(self) -> None:
        """Wait for a write that was begun. A cancellation ends the wait, not the write."""
        append = self._append
        if append is not None:
            try:
                await asyncio.shield(append)
            finally:
                self._append = None if append.done() else append

    async def _settle_earlier(self) -> None:
        """Wait for a write that a cancellation has left, so that no event is stored twice. If it failed, its
        events still wait."""
        with suppress(StoreUnavailable, StoreFull):
            await self._settle()

    def hurried(self) -> "EventLog":
        """The log retries until the server ends the work."""
        return self

    async def save(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """The last events and the response, in one commit."""
        async with self._writing:
            await self._settle_earlier()
            large = self.stored_bytes + self._waiting_bytes > LARGE_LOG_BYTES
            last = UnstoredEvents([*self._waiting, *events], large)
            try:
                await retry_while_unavailable(
                    f"the background response {self._id}",
                    lambda: self._store.finish(self._tenant, self._token, stored, last),
                )
            except AntiphonError as error:
                if error.code == LOG_GAP:
                    raise Unkept(error.message) from error
                raise
            self.saved = stored.response
            self._waiting.clear()
            self._waiting_bytes = 0
        self._signals.publish(f"events:{self._id}")

    async def close(self) -> None:
        """The work ends here: store the events so far, for the next attempt."""
        with suppress(Fenced):
            await self.flush()
