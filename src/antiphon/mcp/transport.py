"""The port of transports, and the bookkeeping of those that share one stream of messages."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Protocol

from antiphon.errors import McpError, McpProtocolError
from antiphon.mcp.messages import INVALID_RESULT, Message, Outgoing, answer_to, progress_of

MAX_ANSWER_BYTES = 5 * 1024 * 1024
"""Of one message, and of everything that is sent in answer to one request."""
MAX_MESSAGES = 10_000
"""Messages in answer to one request: progress, logs and the reply."""
COURTESY_TIMEOUT_SECONDS = 5.0
"""For messages that the server may miss: answers to its requests, cancellations, the end of a session."""
MAX_COURTESIES = 16
"""Such messages at the same time; more are not sent."""


class SessionLost(Exception):
    """The server does not know the session: the request was not handled, and a handshake is needed."""


class Transport(Protocol):
    """Takes requests to a server and brings back its replies."""

    stateful: bool
    """Whether it can be lost while nobody uses it: a process, or a stream."""

    @property
    def usable(self) -> bool:
        """Whether requests can be sent."""
        ...

    async def request(self, outgoing: Outgoing) -> Message:
        """The reply to a request. Raises `McpError`, or `SessionLost`. If it is cancelled, the server is
        notified."""
        ...

    async def notify(self, data: bytes, headers: dict[str, str]) -> None:
        """Send a message that has no reply."""
        ...

    async def aclose(self) -> None:
        """End it."""
        ...


class Courtesies:
    """Sends messages in the background that the server may miss."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, sending: Coroutine[None, None, None]) -> None:
        """Send a message, unless too many are on their way."""
        if len(self._tasks) >= MAX_COURTESIES:
            sending.close()
            return
        task = asyncio.get_running_loop().create_task(_within_timeout(sending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


async def _within_timeout(sending: Coroutine[None, None, None]) -> None:
    with suppress(McpError, TimeoutError):
        async with asyncio.timeout(COURTESY_TIMEOUT_SECONDS):
            await sending


class WaitingRequests:
    """The requests on one stream of messages that wait for their replies."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._received = 0
        """Messages since the last request."""
        self._waiting: dict[int, tuple[asyncio.Future[Message], Outgoing]] = {}
        self.error: McpError | None = None
        """Why the stream has ended, once it has."""

    def add(self, outgoing: Outgoing) -> "asyncio.Future[Message]":
        """The future of a reply; raises the error of a stream that has ended."""
        if self.error is not None:
            raise self.error
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[outgoing.id] = (future, outgoing)
        self._received = 0
        return future

    def remove(self, outgoing: Outgoing) -> None:
        """Nobody waits for this reply any more."""
        self._waiting.pop(outgoing.id, None)

    def receive(self, message: Message) -> bytes | None:
        """Pass a message on to the request that it belongs to. Returns what must be sent in answer. Raises
        `McpProtocolError` for a flood."""
        self._received += 1
        if self._received > MAX_MESSAGES:
            why = f"sent more than {MAX_MESSAGES} messages without a request."
            raise McpProtocolError(f"The MCP server '{self._label}' {why}", INVALID_RESULT)
        if not message.is_reply:
            if message.id is not None:
                return answer_to(message)
            if (found := progress_of(message)) and isinstance(found[0], int):
                _, outgoing = self._waiting.get(found[0], (None, None))
                if outgoing is not None and outgoing.on_progress is not None:
                    outgoing.on_progress(found[1])
            return None
        if isinstance(message.id, int):
            future, _ = self._waiting.pop(message.id, (None, None))
            if future is not None and not future.done():
                future.set_result(message)
        return None

    def fail(self, error: McpError) -> None:
        """The stream has ended: fail everything that waits."""
        self.error = self.error or error
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(self.error)
        self._waiting.clear()
