"""Signals between processes: LISTEN and NOTIFY on a dedicated connection.

The same connection detects outages, because it is always in use: it sends notifications in batches, and a
ping when there are none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager

import msgspec

from antiphon.store.postgres_client import ANSWER_TIMEOUT_SECONDS, FAILURES, Connection
from antiphon.store.signals import LocalSignals

CHANNEL = "antiphon"
NOTIFY_INTERVAL_SECONDS = 0.02
"""Time between two batches of notifications. A commit with NOTIFY takes a lock on the complete database."""

PING_SECONDS = 0.5
"""An idle connection is pinged, and a lost one reconnected, at this interval."""

MAX_PAYLOAD_BYTES = 7_900
"""The size of one notification; PostgreSQL accepts fewer than 8,000 bytes."""

_NOTIFY = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1::text[]) AS payload"


class PostgresSignals(LocalSignals):
    """Signals for all processes on one database. After it has reconnected it wakes every waiter once, because
    signals may have been lost meanwhile."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        lost: Callable[[Exception], None],
        found: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._connect = connect
        self._lost = lost
        self._found = found
        self._outbox: set[str] = set()
        self._wakeup = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and reconnect after every failure until `aclose`."""
        self._task = asyncio.create_task(self._stay_connected(await self._listen()))

    def publish(self, topic: str) -> None:
        """Wake the waiters of this process now, and those of other processes with the next batch."""
        super().publish(topic)
        self._outbox.add(topic)
        self._wakeup.set()

    async def aclose(self) -> None:
        """Send the pending notifications if the database answers, and disconnect."""
        if self._task is None:
            return
        self._closing = True
        self._wakeup.set()
        await asyncio.wait({self._task}, timeout=ANSWER_TIMEOUT_SECONDS)
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _stay_connected(self, connection: Connection) -> None:
        while True:
            try:
                await self._serve(connection)
                return
            except FAILURES as error:
                self._lost(error)
            finally:
                connection.terminate()
            connection = await self._reconnect()
            await self._found()
            self._wake(tuple(self._topics))

    async def _listen(self) -> Connection:
        connection = await self._connect()
        try:
            connection.add_termination_listener(self._terminated)
            with _limited(connection):
                await connection.add_listener(CHANNEL, self._notified)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _reconnect(self) -> Connection:
        while True:
            try:
                return await self._listen()
            except FAILURES:
                await asyncio.sleep(PING_SECONDS)

    async def _serve(self, connection: Connection) -> None:
        while self._outbox or not self._closing:
            await self._wait_for_wakeup()
            if self._outbox:
                await self._notify(connection)
                await asyncio.sleep(NOTIFY_INTERVAL_SECONDS)
            else:
                with _limited(connection):
                    await connection.execute("SELECT 1")

    async def _wait_for_wakeup(self) -> None:
        """Wait for a notification to send, for the end of the connection, or for the next ping."""
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._wakeup.wait()
        except TimeoutError:
            return
        self._wakeup.clear()

    async def _notify(self, connection: Connection) -> None:
        topics, self._outbox = self._outbox, set()
        try:
            with _limited(connection):
                await connection.fetch(_NOTIFY, payloads(topics))
        except BaseException:
            self._outbox |= topics
            raise

    def _terminated(self, _connection: Connection) -> None:
        self._wakeup.set()

    def _notified(self, connection: Connection, sender: int, _channel: str, payload: str) -> None:
        if sender != connection.get_server_pid():
            self._wake(msgspec.json.decode(payload, type=list[str]))

    def _wake(self, topics: Iterable[str]) -> None:
        for topic in topics:
            super().publish(topic)


def payloads(topics: Iterable[str]) -> list[str]:
    """Topics as JSON lists, as few as possible, each small enough for one notification.

    A topic that is too long for a notification is left out: its waiters also poll.
    """
    lists: list[list[str]] = []
    room = 0
    for topic in topics:
        size = len(msgspec.json.encode(topic)) + 1
        if size > room:
            lists.append([])
            room = MAX_PAYLOAD_BYTES
        if size <= room:
            room -= size
            lists[-1].append(topic)
    return [msgspec.json.encode(joined).decode() for joined in lists if joined]


@contextmanager
def _limited(connection: Connection) -> Generator[None, None, None]:
    """Drop a connection that does not answer in time.

    There are two short timers instead of one. If this process itself was suspended, the first timer expires
    before the answer is read; the second one leaves time to read it.
    """
    loop = asyncio.get_running_loop()

    def wait_again() -> None:
        nonlocal timer
        timer = loop.call_later(ANSWER_TIMEOUT_SECONDS / 2, connection.terminate)

    timer = loop.call_later(ANSWER_TIMEOUT_SECONDS / 2, wait_again)
    try:
        yield
    finally:
        timer.cancel()
