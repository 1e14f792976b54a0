"""`Watch`: heartbeats and deadlines of one answer, at next to no cost per read.

One timer per upstream looks at all answers that are awaited; a read costs a look at the clock, and an answer
that comes quickly costs no timer at all.
"""

import asyncio

from antiphon.backends.connection import Answer
from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendTimeout

MAX_INTERVAL = 0.25
MIN_INTERVAL = 0.005


class Watches:
    """All answers of one upstream that are under way."""

    def __init__(self, endpoint: Endpoint) -> None:
        deadlines = endpoint.deadlines
        shortest = min(endpoint.heartbeat, deadlines.first_byte, deadlines.between, deadlines.answer)
        self._interval = max(MIN_INTERVAL, min(MAX_INTERVAL, shortest / 8))
        self._open: set[Watch] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, watch: "Watch", loop: asyncio.AbstractEventLoop) -> None:
        """Look after this one too."""
        self._open.add(watch)
        if self._timer is None:
            self._timer = loop.call_later(self._interval, self._sweep, loop)

    def remove(self, watch: "Watch") -> None:
        """It is over."""
        self._open.discard(watch)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for watch in list(self._open):
            watch.look(now)
        self._timer = loop.call_later(self._interval, self._sweep, loop) if self._open else None


class Watch:
    """Follows one answer at a time. Only events count as life, so the reader reports them: `alive`."""

    def __init__(
        self, watches: Watches, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, patience: float
    ) -> None:
        self._watches = watches
        self._loop = loop
        self._endpoint = endpoint
        self._deadlines = endpoint.deadlines
        self._patience = self._limit = patience
        now = loop.time()
        self._end = now + self._deadlines.total
        self._alive_at = self._heard_at = self._left_at = now
        self._answer: Answer | None = None
        self._late = False
        self._started = False

    def follow(self, answer: Answer) -> None:
        """Watch the waits on this answer from now on."""
        self._answer = answer
        self._limit = self._patience
        self._alive_at = self._left_at = self._loop.time()
        self._watches.add(self, self._loop)

    def begin_wait(self) -> None:
        """The reader is back. While it was away (its own client may be slow), our clocks stood still."""
        away = self._loop.time() - self._left_at
        self._alive_at += away
        self._heard_at += away

    def end_wait(self) -> None:
        """The reader has something to do."""
        self._left_at = self._loop.time()

    def alive(self, *, heard: bool) -> None:
        """An event came. `heard`: and our own client was told something."""
        self._alive_at = self._loop.time()
        self._limit = self._deadlines.between
        self._started = True
        if heard:
            self._heard_at = self._alive_at

    def hurry(self, seconds: float) -> None:
        """Wait no longer than this for what is still to come."""
        self._limit = min(self._limit, seconds)

    def look(self, now: float) -> None:
        """Interrupt the wait if something is due."""
        answer = self._answer
        if answer is None or not answer.waiting:
            return
        if now >= min(self._alive_at + self._limit, self._end):
            self._late = True
            answer.interrupt()
        elif now >= self._heard_at + self._endpoint.heartbeat:
            self._heard_at = now
            answer.interrupt()

    def check(self) -> None:
        """After an interruption: raise if that was a deadline."""
        if not self._late:
            return
        name = self._endpoint.name
        if self._loop.time() >= self._end:
            raise BackendTimeout(f"The upstream '{name}' took longer than {self._deadlines.total:g} s.")
        what = "sent nothing more" if self._started else "did not begin its answer"
        raise BackendTimeout(f"The upstream '{name}' {what} within {self._limit:g} s.")

    def close(self) -> None:
        """Stop watching."""
        self._watches.remove(self)
