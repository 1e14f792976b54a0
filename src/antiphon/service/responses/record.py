"""`RunRecord`: what is stored of a run beside its response: who asked, how long it took, and its trace."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from antiphon.caller import Caller
from antiphon.errors import AntiphonError
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import Event
from antiphon.service.responses.trace import is_short, seal_trace
from antiphon.service.routing.router import Route
from antiphon.settings import RecordTraces
from antiphon.store.stats import ResponseStats
from antiphon.turn.chunks import Chunk, Finished, Heartbeat, TurnStarted, UsageReported
from antiphon.turn.sealing import Sealer
from antiphon.turn.trace import TraceRecorder, TurnTrace

_NO_TOKENS = (Heartbeat, TurnStarted, UsageReported, Finished)


class Origin(Struct, frozen=True):
    """The request that a response comes from. `body` is recorded in its trace."""

    request_id: str | None = None
    traced: bool = False
    """Whether the request asks for a trace."""
    body: bytes | None = None


NO_ORIGIN = Origin()


class TracePolicy(Struct, frozen=True):
    """Which responses have a trace, and how many bytes it records."""

    record: RecordTraces = "on_request"
    max_bytes: int = 512 * 1024

    def recorder(self, origin: Origin, now: Callable[[], float]) -> TraceRecorder | None:
        """The recorder of a response; None if it has no trace."""
        if self.record == "off" or not (origin.traced or self.record == "all"):
            return None
        return TraceRecorder(now, self.max_bytes, origin.body)


@dataclass(slots=True)
class RunRecord:
    """It is filled while the response is made, and saved with it."""

    caller: Caller
    request_id: str | None = None
    trace: TraceRecorder | None = None
    started_at: float | None = None
    """By the clock of the event loop, like the other times."""
    first_at: float | None = None
    upstream: str | None = None
    _turn: TurnTrace | None = None

    def history_read(self) -> None:
        """The history has been read from the store."""
        if self.trace is not None:
            self.trace.history_read()

    def begin_turn(self, route: Route) -> TurnTrace | None:
        """A turn of this backend begins; its trace, if one is recorded."""
        self.upstream = route.backend.name
        if self.trace is not None:
            self._turn = self.trace.begin_turn(self.upstream, route.dialect, route.upstream or route.model)
        return self._turn

    def received(self, chunks: Sequence[Chunk]) -> None:
        """The model has sent these chunks; the first ones count as its first token."""
        if self.first_at is None and any(type(chunk) not in _NO_TOKENS for chunk in chunks):
            self.first_at = asyncio.get_running_loop().time()

    def record_events(self, events: list[Event]) -> list[Event]:
        """Record these events, which are about to be sent, in the trace."""
        if self.trace is not None:
            self.trace.add_events(events)
        return events

    def set_downgrades(self, downgrades: Sequence[Downgrade]) -> None:
        """What the turn emulates, changes or leaves out."""
        if self._turn is not None:
            self._turn.set_downgrades([each.render() for each in downgrades])

    def end_turn(self, failure: AntiphonError | None) -> None:
        """The turn ended or failed."""
        if self._turn is not None:
            self._turn.ended()
            if failure is not None:
                self._turn.failed(failure.message)

    def stats(self, now: float) -> ResponseStats:
        """The columns of the response."""
        start, first = self.started_at, self.first_at
        return ResponseStats(
            key_id=self.caller.key_id,
            request_id=self.request_id,
            upstream=self.upstream,
            first_token_ms=None if start is None or first is None else round(1000 * (first - start)),
            total_ms=None if start is None else round(1000 * (now - start)),
        )

    async def sealed_trace(self, sealer: Sealer) -> bytes | None:
        """The trace, without secrets of this process. A long one is sealed in a thread."""
        if self.trace is None:
            return None
        if is_short(self.trace):
            return seal_trace(self.trace, self.request_id, sealer)
        return await asyncio.to_thread(seal_trace, self.trace, self.request_id, sealer)
