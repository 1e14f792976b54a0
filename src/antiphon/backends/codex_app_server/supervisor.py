"""`Supervisor`: sees to it that there is one child, and that a broken one is not started in a loop."""

import logging
from asyncio import Lock, sleep

from antiphon.backends.codex_app_server.child import Child, ChildOptions
from antiphon.errors import BackendBroken, BackendTimeout, Unavailable

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0


class Supervisor:
    """Starts the child when it is first needed, and again after it ended."""

    def __init__(
        self, options: ChildOptions, *, pause: float = FIRST_PAUSE, longest_pause: float = LONGEST_PAUSE
    ) -> None:
        self._options = options
        self._pause = pause
        self._longest = longest_pause
        self._child: Child | None = None
        self._starting = Lock()
        self._failures = 0
        self._closed = False

    async def child(self) -> Child:
        """The child, ready to be asked; raises `BackendError` if there can be none."""
        async with self._starting:
            if self._closed:
                raise Unavailable
            if self._child is None or not self._child.alive:
                await self._restart()
            assert self._child is not None
            return self._child

    def worked(self) -> None:
        """A turn came to its end: what was wrong, if anything, is not wrong any more."""
        self._failures = 0

    async def aclose(self) -> None:
        """End the child; none is started any more."""
        self._closed = True
        async with self._starting:
            if self._child is not None:
                await self._child.aclose()

    async def _restart(self) -> None:
        if self._child is not None:
            await self._child.aclose()
            self._child = None
            self._failures += 1
        if self._failures:
            await sleep(min(self._pause * 2 ** (self._failures - 1), self._longest))
        try:
            self._child = await Child.start(self._options)
        except (BackendBroken, BackendTimeout) as error:
            self._failures += 1
            logger.warning("codex did not start: %s", error.message)
            raise
        logger.info("codex runs as process %d", self._child.pid)
