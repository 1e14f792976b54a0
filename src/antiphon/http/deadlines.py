"""Heartbeats and deadlines of responses, at next to no cost per read.

One timer per client checks all responses that are awaited. A read costs one look at the clock, and a response
that arrives quickly costs no timer.
"""

import asyncio

from antiphon.errors import BackendTimeout
from antiphon.http.connection import IncomingResponse
from antiphon.http.target import Deadlines, Target

MAX_INTERVAL_SECONDS = 0.25
MIN_INTERVAL_SECONDS = 0.005


class DeadlineTimer:
    """Checks all open watches of one client at a regular interval, while there are any."""

    def __init__(self, heartbeat: float, deadlines: Deadlines) -> None:
        shortest = min(heartbeat, deadlines.first_byte, deadlines.between, deadlines.answer)
        self._interval = max(MIN_INTERVAL_SECONDS, min(MAX_INTERVAL_SECONDS, shortest / 8))
        self._open: set[DeadlineWatch] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, watch: "DeadlineWatch", loop: asyncio.AbstractEventLoop) -> None:
        self._open.add(watch)
        if self._timer is None:
            self._timer = loop.call_later(self._interval, self._check_all, loop)

    def remove(self, watch: "DeadlineWatch") -> None:
        self._open.discard(watch)

    def _check_all(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for watch in list(self._open):
            watch.check_due(now)
        self._timer = loop.call_later(self._interval, self._check_all, loop) if self._open else None


class DeadlineWatch:
    """The deadlines of one exchange, which extends this class: every token passes here, and a call that is
    only passed on would count. The reader reports progress: only it knows what counts as an event."""

    __slots__ = (
        "_delivered_at",
        "_end",
        "_first_byte",
        "_late",
        "_left_at",
        "_limit",
        "_loop",
        "_progress_at",
        "_response",
        "_started",
        "_target",
        "_timer",
    )

    def __init__(
        self, timer: DeadlineTimer, loop: asyncio.AbstractEventLoop, target: Target, first_byte: float
    ) -> None:
        self._timer = timer
        self._loop = loop
        self._target = target
        self._first_byte = self._limit = first_byte
        now = loop.time()
        self._end = now + target.deadlines.total
        self._progress_at = self._delivered_at = self._left_at = now
        self._response: IncomingResponse | None = None
        self._late = False
        self._started = False

    def _follow(self, response: IncomingResponse) -> None:
        """Watch the waits on this response from now on."""
        self._response = response
        self._limit = self._first_byte
        self._progress_at = self._left_at = self._loop.time()
        self._timer.add(self, self._loop)

    def _begin_wait(self) -> None:
        """The reader waits again. Time that it spent elsewhere, on a slow client, counts for the total only:
        raises if that has passed."""
        now = self._loop.time()
        away = now - self._left_at
        self._progress_at += away
        self._delivered_at += away
        if now >= self._end:
            raise self._total_passed()

    def progress(self, *, delivered: bool) -> None:
        """Report an event of the last read. `delivered`: it was passed on to the client, so no heartbeat is
        due."""
        self._progress_at = self._left_at
        self._limit = self._target.deadlines.between
        self._started = True
        if delivered:
            self._delivered_at = self._progress_at

    def shorten_wait(self, seconds: float) -> None:
        """Wait no longer than this for the rest of the response."""
        self._limit = min(self._limit, seconds)

    def check_due(self, now: float) -> None:
        """Interrupt the wait if a deadline has passed or a heartbeat is due."""
        response = self._response
        if response is None or not response.waiting:
            return
        if now >= min(self._progress_at + self._limit, self._end):
            self._late = True
            response.interrupt()
        elif now >= self._delivered_at + self._target.heartbeat:
            self._delivered_at = now
            response.interrupt()

    def _raise_if_late(self) -> None:
        """After an interruption: raise if a deadline was its cause."""
        if not self._late:
            return
        if self._loop.time() >= self._end:
            raise self._total_passed()
        what = "sent nothing more" if self._started else "did not begin its answer"
        raise BackendTimeout(f"The {self._target.described} {what} within {self._limit:g} s.")

    def _total_passed(self) -> BackendTimeout:
        seconds = self._target.deadlines.total
        return BackendTimeout(f"The {self._target.described} took longer than {seconds:g} s.")
