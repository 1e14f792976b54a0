"""From a worker thread to the event loop: a bounded way for payloads that either end may close."""

import asyncio
import threading

from antiphon.errors import BackendError, Unavailable

CAPACITY = 256
"""The most payloads in the queue; then the thread waits. llama.cpp buffers the rest in its own memory, which
the size of the context bounds."""


class Pipe:
    """Made on the loop's side. `put` and `end` belong to the thread, `take` and `close` to the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._room = threading.Condition()
        self._payloads: list[bytes] = []
        self._ended = False
        self._closed = False
        self._error: BackendError | Unavailable | None = None

    @property
    def closed(self) -> bool:
        """Whether the reader has closed the pipe."""
        return self._closed

    def put(self, payload: bytes) -> bool:
        """Hand one over; True means stop. Waits while the listener is slow."""
        with self._room:
            self._room.wait_for(lambda: len(self._payloads) < CAPACITY or self._closed)
            if self._closed:
                return True
            self._payloads.append(payload)
        self._wake()
        return False

    def end(self, error: BackendError | Unavailable | None = None) -> None:
        """Nothing more will come."""
        with self._room:
            self._ended = True
            self._error = self._error or error
        self._wake()

    async def take(self, seconds: float) -> list[bytes] | None:
        """The queued payloads; empty if none arrives in time; None at the end. Raises the thread's error."""
        try:
            async with asyncio.timeout(seconds):
                while not (self._payloads or self._ended):
                    self._arrived.clear()  # whatever comes from here on sets it again, on this loop
                    await self._arrived.wait()
        except TimeoutError:
            return []
        with self._room:
            payloads, self._payloads = self._payloads, []
            self._room.notify()
        if not payloads and self._error is not None:
            raise self._error
        return payloads or None

    def close(self, error: Unavailable | None = None) -> None:
        """Listen no more. With an error: end it for a listener that still waits."""
        with self._room:
            self._closed = self._ended = True
            self._error = self._error or error
            self._room.notify()
        self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:  # the loop is gone, and its listeners with it
            self._closed = True
