"""How many large bodies are received further in one iteration of the event loop.

A connection gives up to 256 kB of a body at once, and reads on when the application has worked on them. With
twenty such connections, that would be 5 MB in each iteration, and everybody would wait for them.
"""

import asyncio
from collections import deque
from typing import Protocol

MAX_RESUMED = 1
"""In one iteration."""


class PausedConnection(Protocol):
    """A connection that receives nothing at the moment."""

    loop: asyncio.AbstractEventLoop

    def resume_now(self) -> None:
        """Receive again."""
        ...


class ReceiveQueue:
    """The connections of a process that wait to receive more of a body. They take turns."""

    def __init__(self) -> None:
        self._resumed = 0
        """Since the last turn."""
        self._waiting: deque[PausedConnection] = deque()

    def resume(self, connection: PausedConnection) -> None:
        """Let a connection receive again: at once, or when its turn has come."""
        self._resumed += 1
        if self._resumed > MAX_RESUMED:
            self._waiting.append(connection)
            return
        if self._resumed == MAX_RESUMED:
            connection.loop.call_soon(self._take_turn, connection.loop)
        connection.resume_now()

    def _take_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called in every iteration while connections wait."""
        self._resumed = 0
        while self._waiting and self._resumed < MAX_RESUMED:
            self._resumed += 1
            self._waiting.popleft().resume_now()
        if self._resumed == MAX_RESUMED:
            loop.call_soon(self._take_turn, loop)
