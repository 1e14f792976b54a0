"""The watchdog: what holds the event loop is logged with its stack; overload is refused."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from itertools import pairwise
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import Overloaded
from antiphon.memory_use import resident_bytes
from antiphon.server import watchdog as watchdog_module
from antiphon.server.admission import LATE, MEMORY_FULL, MEMORY_SHORT, Admission, Overload
from antiphon.server.app import App
from antiphon.server.memory import memory_client
from antiphon.server.watchdog import Watchdog
from antiphon.turn.chunks import Finished, TextDelta
from tests.server.conftest import never_opened, options
from tests.service.conftest import MakeCreator, services_of


class Watched:
    """A watchdog at work."""

    def __init__(self, **limits: int) -> None:
        self.admission = Admission(**limits)
        self.dog = Watchdog(self.admission)
        self._task = asyncio.create_task(self.dog.run())

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def watched() -> AsyncGenerator[Watched, None]:
    made = Watched()
    await asyncio.sleep(0.06)
    yield made
    await made.end()


async def becomes(admission: Admission, overload: Overload | None) -> bool:
    """Whether the state is reached in time."""
    for _ in range(400):
        if admission.overload == overload:
            return True
        await asyncio.sleep(0.05)
    return False


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_what_holds_the_loop_is_logged_with_its_stack(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "antiphon.server.watchdog")
    hold_the_loop(0.4)
    await asyncio.sleep(0.1)
    (entry,) = [record.getMessage() for record in caplog.records]
    assert watched.dog.blocks >= 1
    assert "hold_the_loop" in entry
    assert "test_what_holds_the_loop_is_logged_with_its_stack" in entry
    assert "base_events" not in entry


@pytest.mark.parametrize("begin", [0.0, 0.015, 0.03, 0.045])
async def test_what_holds_the_loop_for_a_tenth_of_a_second_is_logged_whenever_it_begins(
    watched: Watched, caplog: pytest.LogCaptureFixture, begin: float
) -> None:
    caplog.set_level(logging.WARNING, "antiphon.server.watchdog")
    await asyncio.sleep(begin)
    hold_the_loop(0.105)
    await asyncio.sleep(0.1)
    assert watched.dog.blocks >= 1
    assert "hold_the_loop" in caplog.records[0].getMessage()


async def test_a_second_block_is_counted_and_logged_later(
    watched: Watched, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "antiphon.server.watchdog")
    for _ in range(2):
        hold_the_loop(0.3)
        await asyncio.sleep(0.1)
    assert watched.dog.blocks >= 2
    assert len(caplog.records) == 1
    monkeypatch.setattr(watchdog_module, "LOG_SECONDS", 0.0)
    hold_the_loop(0.3)
    await asyncio.sleep(0.1)
    assert f"({watched.dog.blocks} times since the start)" in caplog.records[-1].getMessage()


async def test_the_server_is_overloaded_while_every_timer_is_late(watched: Watched) -> None:
    holds = 0
    while watched.admission.overload is None:
        hold_the_loop(0.4)
        holds += 1
        await asyncio.sleep(0.005)
    assert watched.admission.overload is LATE
    assert holds in range(watchdog_module.OVERLOAD_TICKS, watchdog_module.OVERLOAD_TICKS + 3)
    assert await becomes(watched.admission, None)


async def test_beyond_its_memory_the_server_is_overloaded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = resident_bytes()
    assert used > 10_000_000
    watched = Watched(max_memory_bytes=used // 2)
    assert await becomes(watched.admission, MEMORY_FULL)
    monkeypatch.setattr(watchdog_module, "resident_bytes", lambda: used // 2)
    assert await becomes(watched.admission, MEMORY_SHORT)
    monkeypatch.setattr(watchdog_module, "resident_bytes", lambda: used // 4)
    assert await becomes(watched.admission, None)
    assert [
        record.getMessage().partition(":")[2] for record in caplog.records if "in use" in record.getMessage()
    ] == [" new requests are refused"]
    await watched.end()


async def test_below_its_memory_it_is_not() -> None:
    watched = Watched(max_memory_bytes=resident_bytes() * 4)
    await asyncio.sleep(0.7)
    assert watched.admission.overload is None
    await watched.end()


async def test_freed_memory_is_given_back_before_the_ceiling_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[float] = []
    monkeypatch.setattr(watchdog_module, "give_memory_back", lambda: times.append(time.monotonic()))
    monkeypatch.setattr(watchdog_module, "GIVE_BACK_SECONDS", 0.3)
    small = Watched(max_memory_bytes=resident_bytes() * 4)
    await asyncio.sleep(1)
    assert times == []
    await small.end()
    half = Watched(max_memory_bytes=resident_bytes() * 2)
    async with asyncio.timeout(20):
        while len(times) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert half.admission.overload is None
    await half.end()
    assert all(after - before >= 0.3 for before, after in pairwise(times))


async def test_an_overloaded_server_refuses_work_and_serves_the_rest(make_creator: MakeCreator) -> None:
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services_of(make_creator(ScriptedBackend([[TextDelta("hi"), Finished("stop")]]))))
    body: dict[str, Any] = {"model": "m", "input": "x"}
    async with memory_client(app) as client:
        created = (await client.post("/v1/responses", json=body)).json()
        app.admission.overload = LATE
        for path in ("/v1/responses", "/v1/chat/completions", "/v1/messages", "/v1/conversations"):
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        refused = await client.post("/v1/responses", json=body)
        assert refused.json()["error"] == {
            "message": "The server is overloaded. Try again in a moment.",
            "type": "server_error",
            "param": None,
            "code": "server_overloaded",
        }
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get(f"/v1/responses/{created['id']}")).status_code == 200
        assert (await client.delete(f"/v1/responses/{created['id']}")).status_code == 200
        app.admission.overload = None
        assert (await client.post("/v1/conversations", json={})).status_code == 200


def test_with_little_memory_tenants_without_large_bodies_are_served() -> None:
    admission = Admission()
    admission.bodies.reserve("receiving", 100_000)
    admission.held.reserve("answered", 100_000)
    admission.overload = MEMORY_SHORT
    admission.check("healthy")
    for tenant in ("receiving", "answered"):
        with pytest.raises(Overloaded, match="too little memory"):
            admission.check(tenant)
    admission.held.release("answered", 100_000)
    admission.check("answered")
    for overload in (MEMORY_FULL, LATE):
        admission.overload = overload
        with pytest.raises(Overloaded, match=overload.message):
            admission.check("healthy")


async def test_the_memory_of_child_processes_counts_for_bodies() -> None:
    child = await asyncio.create_subprocess_exec("sleep", "60")
    own = resident_bytes()
    watched = Watched(max_memory_bytes=own * 4)
    bodies = watched.admission.bodies
    try:
        async with asyncio.timeout(10):
            while not bodies.children_bytes:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert bodies.children_bytes >= resident_bytes(child.pid) > 100_000
        size = 2**20
        bodies.reserve("a", size)
        bodies.release("a", size)
        bodies.children_bytes = own * 4
        with pytest.raises(Overloaded, match="too little memory"):
            bodies.reserve("a", size)
        assert watched.admission.overload is None  # what is running, and small requests, go on
    finally:
        child.kill()
        await child.wait()
        await watched.end()
