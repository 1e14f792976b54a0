"""`Watch`: heartbeats and deadlines of one answer, at next to no cost per read.

One timer watches the whole exchange. It fires when something may be due, looks at two timestamps, and nearly
always just sets itself again; only when the reader really waits too long does it interrupt the wait.
"""

import asyncio

from antiphon.backends.connection import Answer
from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendTimeout

_PAUSE = 0.01
"""The watch never looks more often than this."""


class Watch:
    """Follows one answer at a time. Only events count as life, so the reader reports them: `alive`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, patience: float) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._deadlines = endpoint.deadlines
        self._patience = self._limit = patience
        now = self._loop.time()
        self._end = now + self._deadlines.total
        self._alive_at = self._heard_at = self._left_at = now
        self._answer: Answer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._late = False
        self._started = False

    def follow(self, answer: Answer) -> None:
        """Watch the waits on this answer from now on."""
        self._answer = answer
        self._limit = self._patience
        self._alive_at = self._left_at = self._loop.time()
        if self._timer is None:
            self._set_timer()

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
        if seconds < self._limit:
            self._limit = seconds
            self.close()
            self._set_timer()

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        # The limit may fall to `between` before the timer fires, so it looks no later than that.
        silence = self._alive_at + min(self._limit, self._deadlines.between)
        due = min(silence, self._end, self._heard_at + self._endpoint.heartbeat)
        self._timer = self._loop.call_at(max(due, self._loop.time() + _PAUSE), self._look)

    def _look(self) -> None:
        now = self._loop.time()
        answer = self._answer
        if answer is None or not answer.waiting:
            pass
        elif now >= min(self._alive_at + self._limit, self._end):
            self._late = True
            answer.interrupt()
        elif now >= self._heard_at + self._endpoint.heartbeat:
            self._heard_at = now
            answer.interrupt()
        self._set_timer()
