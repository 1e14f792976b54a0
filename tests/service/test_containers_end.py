"""Containers whose sandbox cannot be ended properly: no other container is affected."""

from dataclasses import dataclass, field

import pytest

from antiphon.sandbox.port import SandboxLimits
from antiphon.service.containers.containers import Container, ContainerLimits, Containers
from tests.sandbox.memory_sandbox import MemorySandbox, MemorySession
from tests.sandbox.sandboxes import SMALL
from tests.service.conftest import MakeCreator, files_of


class SettableClock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class BrokenSession(MemorySession):
    async def close(self) -> None:
        await super().close()
        raise RecursionError("maximum recursion depth exceeded")


@dataclass
class BrokenFirst(MemorySandbox):
    """Its first session cannot be closed."""

    sessions: list[MemorySession] = field(default_factory=list[MemorySession])

    async def start(self, limits: SandboxLimits) -> MemorySession:
        session = MemorySession(limits) if self.sessions else BrokenSession(limits)
        self.sessions.append(session)
        return session


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def containers(make_creator: MakeCreator, clock: SettableClock) -> Containers:
    creator = make_creator()
    files = files_of(creator.store, creator.ids)
    return Containers(BrokenFirst(), files, creator.ids, clock, ContainerLimits(sandbox=SMALL, per_tenant=1))


async def two_used(containers: Containers) -> tuple[Container, Container]:
    first = await containers.create("a", "first", automatic=True)
    second = await containers.create("b", "second")
    for container in (first, second):
        await containers.run(container, "made.txt")
    return first, second


def sessions(containers: Containers) -> list[MemorySession]:
    assert isinstance(containers.sandbox, BrokenFirst)
    return containers.sandbox.sessions


async def test_others_expire(
    containers: Containers, clock: SettableClock, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await two_used(containers)
    clock.now += 3600 * 24
    await containers.expire()
    assert [session.running for session in sessions(containers)] == [False, False]
    assert (first.ended, first.session, second.ended) == (True, None, True)
    assert "did not end properly" in caplog.text


async def test_others_are_made(containers: Containers, clock: SettableClock) -> None:
    await two_used(containers)
    clock.now += 3600 * 24
    assert not (await containers.create("c", "third")).ended


async def test_room_is_made(containers: Containers) -> None:
    first, _ = await two_used(containers)
    assert not (await containers.create("a", "third")).ended
    assert first.ended


async def test_others_end_with_the_server(containers: Containers) -> None:
    await two_used(containers)
    await containers.aclose()
    assert [session.running for session in sessions(containers)] == [False, False]
