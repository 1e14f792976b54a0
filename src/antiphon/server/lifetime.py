"""How long a request may work: until it is done, its client leaves, or the server has drained long enough.

A `Lease` covers one request. When it must end early, the task is cancelled inside the lease and the reason is
raised out of it: `BodyTimeout`, `ClientGone`, `BackendTimeout` or `Unavailable`.
"""

import asyncio
from types import TracebackType
from typing import Protocol

from antiphon.errors import BackendTimeout, BodyTimeout, Unavailable
from antiphon.server.types import Receive

SWEEP_SECONDS = 0.2
"""Between two checks of the open leases. Most answers are faster and need no timer of their own."""


class Turn(Protocol):
    """A turn of a model, as far as its lease needs it."""

    @property
    def total_seconds(self) -> float: ...


class Work(Protocol):
    """Work under a lease, with the turn that is running."""

    @property
    def turn(self) -> Turn | None: ...


class ClientGone(Exception):
    """The client closed its connection; no answer can be sent."""


class Lifetimes:
    """All open leases of a server, and one timer that checks them."""

    def __init__(self) -> None:
        self._open: set[Lease] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self.draining = False
        """Whether the server is stopping."""
        self._drain_begun = asyncio.Event()

    async def drain_begins(self) -> None:
        """Return when the server begins to stop."""
        await self._drain_begun.wait()

    def lease(self, receive: Receive | None = None) -> "Lease":
        """A lease for the current request. Without `receive`, it does not notice when the client leaves."""
        if self.draining:
            raise Unavailable
        lease = Lease(receive, self._open)
        if self._sweeper is None:
            self._sweeper = lease.loop.call_later(SWEEP_SECONDS, self._sweep)
        return lease

    def drain(self, grace: float) -> None:
        """Reject new requests from now on; end the open ones after `grace` seconds."""
        if not self.draining:
            self.draining = True
            self._drain_begun.set()
            asyncio.get_running_loop().call_later(grace, self._end_all)

    def _sweep(self) -> None:
        self._sweeper = None
        for lease in list(self._open):
            lease.check()
        for lease in self._open:
            self._sweeper = lease.loop.call_later(SWEEP_SECONDS, self._sweep)
            break

    def _end_all(self) -> None:
        for lease in list(self._open):
            lease.end(Unavailable("The server is shutting down; the answer was cut off. Try again."))


class Lease:
    """The right of the current task to work on one request."""

    __slots__ = (
        "_body_by",
        "_open",
        "_reason",
        "_receive",
        "_task",
        "_turn",
        "_turn_since",
        "_watcher",
        "_work",
        "loop",
    )

    def __init__(self, receive: Receive | None, registry: "set[Lease]") -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self.loop = task.get_loop()
        self._receive = receive
        self._open = registry
        self._reason: Exception | None = None
        self._body_by: float | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._work: Work | None = None
        self._turn: Turn | None = None
        self._turn_since = 0.0

    def __enter__(self) -> "Lease":
        self._open.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.discard(self)
        if self._watcher is not None:
            self._watcher.cancel()
        task = self._task
        # The frames of a cancelled task refer to this lease: they must not keep each other, nor the answer.
        del self._task
        self._watcher = self._work = self._turn = None
        if self._reason is not None and kind is asyncio.CancelledError:
            task.uncancel()
            raise self._reason from None

    def end(self, reason: Exception) -> None:
        """End the work now: `reason` is raised out of the lease."""
        if self._reason is None:
            self._reason = reason
            self._task.cancel()

    def expect_body(self, seconds: float) -> None:
        """The body must be read within so many seconds, plus one sweep at most."""
        self._body_by = self.loop.time() + seconds

    def expect_disconnect(self) -> None:
        """The body is complete: from now on, end when the client leaves."""
        self._body_by = None

    def limit_turns(self, work: Work) -> None:
        """End a turn of this work that takes longer than its route allows. The backend's own deadlines end
        its waits for the upstream; this one also holds while the client reads too slowly."""
        self._work = work

    def check(self) -> None:
        """Called by every sweep."""
        if self._work is not None:
            self._check_turn(self._work.turn)
        if self._body_by is not None:
            if self.loop.time() >= self._body_by:
                self.end(BodyTimeout())
        elif self._watcher is None and self._receive is not None:
            self._watcher = self.loop.create_task(self._wait_for_disconnect(self._receive))

    def _check_turn(self, turn: Turn | None) -> None:
        now = self.loop.time()
        if turn is not self._turn:
            self._turn, self._turn_since = turn, now
        elif turn is not None and now - self._turn_since >= turn.total_seconds:
            self.end(BackendTimeout(f"The answer took longer than {turn.total_seconds:g} s."))

    async def _wait_for_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end(ClientGone())
