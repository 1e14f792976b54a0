"""Signals between processes, over PostgreSQL."""

import asyncio

import msgspec
import pytest

from antiphon.store.postgres import PostgresDatabase
from antiphon.store.postgres_client import Address, Connection
from antiphon.store.postgres_signals import CHANNEL, MAX_PAYLOAD_BYTES, NOTIFY_INTERVAL_SECONDS, payloads
from tests.postgres import PostgresServer

slow = pytest.mark.slow


class Listener:
    """Records every notification that the server sends."""

    def __init__(self) -> None:
        self.received: list[list[str]] = []
        self.notified = asyncio.Event()

    async def listen(self, url: str) -> None:
        self._connection = await Address.parse(url).connect()
        await self._connection.add_listener(CHANNEL, self._receive)

    def _receive(self, _connection: Connection, _sender: int, _channel: str, payload: str) -> None:
        self.received.append(msgspec.json.decode(payload, type=list[str]))
        self.notified.set()

    async def everything(self, topics: set[str]) -> None:
        """Wait until all of these topics were received."""
        async with asyncio.timeout(20):
            while {topic for topics_received in self.received for topic in topics_received} != topics:
                await self.notified.wait()
                self.notified.clear()

    def close(self) -> None:
        self._connection.terminate()


@slow
async def test_a_signal_wakes_waiters_of_another_process(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        here, there = await PostgresDatabase.open(url), await PostgresDatabase.open(url)
        with there.signals.subscribe("events:1") as waiter, there.signals.subscribe("events:2") as bystander:
            here.signals.publish("events:1")
            assert await waiter.wait(20)
            assert not await bystander.wait(0.1)
        await here.aclose()
        await there.aclose()


@slow
async def test_a_signal_wakes_waiters_of_this_process_at_once_and_only_once(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        database = await PostgresDatabase.open(url)
        listener = Listener()
        await listener.listen(url)
        with database.signals.subscribe("runs") as waiter:
            database.signals.publish("runs")
            assert await waiter.wait(0)
            await listener.everything({"runs"})
            assert not await waiter.wait(0.1)
        listener.close()
        await database.aclose()


@slow
async def test_a_burst_of_signals_is_joined_into_few_notifications(postgres: PostgresServer) -> None:
    topics = {f"events:{n}" for n in range(50)}
    with postgres.database() as url:
        database = await PostgresDatabase.open(url)
        listener = Listener()
        await listener.listen(url)
        for topic in topics:
            database.signals.publish(topic)
            await asyncio.sleep(0)
        await listener.everything(topics)
        assert len(listener.received) <= 3
        listener.close()
        await database.aclose()


@slow
async def test_between_two_notifications_there_is_a_gap(postgres: PostgresServer) -> None:
    topics = {f"events:{n}" for n in range(50)}
    with postgres.database() as url:
        database = await PostgresDatabase.open(url)
        listener = Listener()
        await listener.listen(url)
        started = asyncio.get_running_loop().time()
        for topic in topics:
            database.signals.publish(topic)
            await asyncio.sleep(0.002)
        await listener.everything(topics)
        assert (
            len(listener.received)
            <= 2 + (asyncio.get_running_loop().time() - started) / NOTIFY_INTERVAL_SECONDS
        )
        listener.close()
        await database.aclose()


@slow
async def test_pending_signals_are_sent_before_closing(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        database = await PostgresDatabase.open(url)
        listener = Listener()
        await listener.listen(url)
        database.signals.publish("events:1")
        await listener.everything({"events:1"})
        database.signals.publish("runs")  # during the outage
        await database.aclose()
        await listener.everything({"events:1", "runs"})
        listener.close()


def test_topics_are_split_where_a_notification_would_be_too_long() -> None:
    topics = [f"events:resp_{n:060}" for n in range(300)]
    packed = payloads(topics)
    assert [topic for payload in packed for topic in msgspec.json.decode(payload)] == topics
    assert len(packed) == 3
    assert all(len(payload.encode()) < 8_000 for payload in packed)


def test_an_oversized_topic_is_omitted() -> None:
    endless = "ü" * MAX_PAYLOAD_BYTES
    assert payloads([endless]) == []
    assert payloads(["a", endless, "b"]) in (['["a"]', '["b"]'], ['["a","b"]'])
    assert payloads([]) == []
