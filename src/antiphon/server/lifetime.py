"""How long work lives: until it is done, its client leaves, or the server has drained long enough.

A `Lease` covers the work of one request. When it must end early, the task is cancelled inside the lease and
the reason is raised out of it: `ClientGone`, or `Unavailable`.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from antiphon.errors import Unavailable
from antiphon.server.types import Receive

WATCH_AFTER = 0.2
"""Seconds after which we begin to listen for a disconnect: most answers are faster and need no listener."""


class ClientGone(Exception):
    """The client closed its connection; there is nobody to answer."""


class Lifetimes:
    """All open leases of a server."""

    def __init__(self) -> None:
        self._open: set[Lease] = set()
        self.draining = False

    def lease(self, receive: Receive) -> "Lease":
        """A lease for the current request."""
        if self.draining:
            raise Unavailable
        return Lease(receive, self._open)

    def drain(self, grace: float) -> None:
        """No new work from now on; what is still open after `grace` seconds is ended."""
        if not self.draining:
            self.draining = True
            asyncio.get_running_loop().call_later(grace, self._end_all)

    def _end_all(self) -> None:
        for lease in list(self._open):
            lease.end(Unavailable("The server is shutting down; the answer was cut off. Try again."))


class Cutoff:
    """Work of the current task that can be ended from outside: the reason is raised out of the block."""

    __slots__ = ("_reason", "_task", "loop")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._reason: Exception | None = None
        self.loop = asyncio.get_running_loop()

    def end(self, reason: Exception) -> None:
        """End the work now."""
        if self._reason is None:
            self._reason = reason
            self._task.cancel()

    def explain(self, kind: type[BaseException] | None) -> None:
        """On the way out: if we cancelled the task, raise why instead."""
        if self._reason is not None and kind is asyncio.CancelledError:
            self._task.uncancel()
            raise self._reason from None


class Deadline(Cutoff):
    """Work that must be done within some seconds. Costs a fraction of `asyncio.timeout`."""

    __slots__ = ("_timer",)

    def __init__(self, seconds: float, late: Callable[[], Exception]) -> None:
        super().__init__()
        self._timer = self.loop.call_later(seconds, lambda: self.end(late()))

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self.explain(kind)


class Lease(Cutoff):
    """The right of the current task to work on one request."""

    __slots__ = ("_open", "_receive", "_timer", "_watcher")

    def __init__(self, receive: Receive, registry: "set[Lease]") -> None:
        super().__init__()
        self._receive = receive
        self._open = registry
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._open.add(self)
        self._timer = self.loop.call_later(WATCH_AFTER, self._watch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.discard(self)
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        self.explain(kind)

    def _watch(self) -> None:
        self._watcher = self.loop.create_task(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.end(ClientGone())
