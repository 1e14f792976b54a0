"""Signals between processes: LISTEN and NOTIFY on one connection of its own.

The same connection tells whether the database is there, because it is always in use: what it says goes out
in batches, and when there is nothing to say it asks for an answer anyway.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager

import msgspec

from antiphon.store.postgres_client import FAILURES, PATIENCE, Connection
from antiphon.store.signals import LocalSignals

CHANNEL = "antiphon"
GAP = 0.02
"""Seconds between two notifications: each one takes a lock on the whole database when it commits."""

PING = 0.5
"""Seconds of silence after which the connection is tried, and between two attempts to reconnect."""

PAYLOAD_LIMIT = 7_900
"""Bytes in one notification; PostgreSQL takes fewer than 8,000."""

_NOTIFY = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1::text[]) AS payload"


class PostgresSignals(LocalSignals):
    """Signals for all processes on one database. It reconnects by itself, and then wakes everybody once,
    because signals may have been lost meanwhile."""

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
        self._stirred = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and stay connected from now on."""
        self._task = asyncio.create_task(self._stay(await self._listen()))

    def publish(self, topic: str) -> None:
        """Wake the waiters of this process now, and those of the others in the next batch."""
        super().publish(topic)
        self._outbox.add(topic)
        self._stirred.set()

    async def aclose(self) -> None:
        """Send what is left, if that is possible right now, and disconnect."""
        if self._task is None:
            return
        self._closing = True
        self._stirred.set()
        await asyncio.wait({self._task}, timeout=PATIENCE)
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _stay(self, connection: Connection) -> None:
        while True:
            try:
                await self._talk(connection)
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
                await asyncio.sleep(PING)

    async def _talk(self, connection: Connection) -> None:
        while self._outbox or not self._closing:
            await self._stir()
            if self._outbox:
                await self._notify(connection)
                await asyncio.sleep(GAP)
            else:
                with _limited(connection):
                    await connection.execute("SELECT 1")

    async def _stir(self) -> None:
        """Wait for something to say, for the end of the connection, or until it is time to try it."""
        try:
            async with asyncio.timeout(PING):
                await self._stirred.wait()
        except TimeoutError:
            return
        self._stirred.clear()

    async def _notify(self, connection: Connection) -> None:
        topics, self._outbox = self._outbox, set()
        try:
            with _limited(connection):
                await connection.fetch(_NOTIFY, payloads(topics))
        except BaseException:
            self._outbox |= topics
            raise

    def _terminated(self, _connection: Connection) -> None:
        self._stirred.set()

    def _notified(self, connection: Connection, sender: int, _channel: str, payload: str) -> None:
        if sender != connection.get_server_pid():
            self._wake(msgspec.json.decode(payload, type=list[str]))

    def _wake(self, topics: Iterable[str]) -> None:
        for topic in topics:
            super().publish(topic)


def payloads(topics: Iterable[str]) -> list[str]:
    """Topics as JSON lists, as few as possible, each small enough for one notification.

    A topic that does not fit into any is left out: who waits for it looks from time to time anyway.
    """
    lists: list[list[str]] = []
    room = 0
    for topic in topics:
        size = len(msgspec.json.encode(topic)) + 1
        if size > room:
            lists.append([])
            room = PAYLOAD_LIMIT
        if size <= room:
            room -= size
            lists[-1].append(topic)
    return [msgspec.json.encode(joined).decode() for joined in lists if joined]


@contextmanager
def _limited(connection: Connection) -> Generator[None, None, None]:
    """Drop a connection that does not answer.

    Two short waits instead of a long one: if this very process stood still, the first one is over before
    the answer could be read; the second one leaves time for it.
    """
    loop = asyncio.get_running_loop()

    def wait_again() -> None:
        nonlocal timer
        timer = loop.call_later(PATIENCE / 2, connection.terminate)

    timer = loop.call_later(PATIENCE / 2, wait_again)
    try:
        yield
    finally:
        timer.cancel()
