"""`Supervisor`: sees to it that there is one child, and that a broken one is not started in a loop."""

import asyncio
import logging

from antiphon.backends.codex_app_server.child import Child
from antiphon.backends.codex_app_server.process import ChildOptions
from antiphon.errors import BackendError, BackendUnreachable, Unavailable

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0


def pause_after(failures: int, first: float, longest: float) -> float:
    """Seconds until the next start after so many failures in a row; the first one is forgiven."""
    return 0.0 if failures <= 1 else min(first * 2.0 ** (failures - 2), longest)


class Supervisor:
    """Starts the child when it is first needed, and again after it has ended.

    Concurrent callers wait for the same start and share its result. After repeated failures without a
    completed turn, the next start is delayed: until then every caller receives the last error.
    """

    def __init__(
        self, options: ChildOptions, *, pause: float = FIRST_PAUSE, longest_pause: float = LONGEST_PAUSE
    ) -> None:
        self._options = options
        self._pause = pause
        self._longest = longest_pause
        self._child: Child | None = None
        self._start: asyncio.Task[Child] | None = None
        self._has_worked = False
        self._failures = 0
        self._last_error: BackendError | None = None
        self._paused_until = 0.0
        self._closed = False

    async def child(self) -> Child:
        """The child, ready to be asked; raises `BackendError` if there can be none."""
        if self._closed:
            raise Unavailable
        if self._child is not None and self._child.alive:
            return self._child
        if self._start is None or self._start.done():
            self._start = asyncio.create_task(self._renew())
        start = self._start
        # A cancelled caller does not cancel the start, because others may wait for it.
        await asyncio.wait({start})
        if start.cancelled():
            raise Unavailable
        return start.result()

    def worked(self) -> None:
        """Reset the failures, because a turn was completed."""
        self._has_worked = True
        self._failures = 0

    async def aclose(self) -> None:
        """End the child; none is started any more."""
        self._closed = True
        if self._start is not None:
            self._start.cancel()
            await asyncio.wait({self._start})
        if self._child is not None:
            await self._child.aclose()

    async def _renew(self) -> Child:
        if self._child is not None:
            await self._bury(self._child)
        self._heed_the_pause()
        try:
            self._child = await Child.start(self._options)
        except BackendUnreachable:
            raise  # nothing was started: trying again costs nothing
        except BackendError as error:
            logger.warning("codex did not start: %s", error.message)
            error.retryable = True  # codex was asked nothing yet
            self._failed(error, asyncio.get_running_loop().time())
            raise
        self._has_worked = False
        logger.info("codex runs as process %d", self._child.pid)
        return self._child

    async def _bury(self, child: Child) -> None:
        await child.aclose()
        self._child = None
        if child.error is not None and not self._has_worked:
            self._failed(child.error, child.failed_at)

    def _failed(self, error: BackendError, when: float) -> None:
        self._failures += 1
        self._last_error = error
        self._paused_until = when + pause_after(self._failures, self._pause, self._longest)

    def _heed_the_pause(self) -> None:
        left = self._paused_until - asyncio.get_running_loop().time()
        if self._last_error is None or left <= 0:
            return
        message = f"{self._last_error.message} It is started again in {left:.1f} s."
        error = BackendUnreachable(message, code=self._last_error.code)
        error.status = self._last_error.status
        error.retry_after = left
        raise error
