"""The quotas of containers hold if many are created at the same time."""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest

from antiphon.errors import Overloaded
from antiphon.sandbox.port import SandboxLimits
from antiphon.service.containers.containers import Container, ContainerLimits, Containers
from tests.sandbox.memory_sandbox import MemorySandbox, MemorySession
from tests.sandbox.sandboxes import SMALL
from tests.service.conftest import MakeCreator, files_of

CLOSE_SECONDS = 0.02
LIMITS = ContainerLimits(sandbox=SMALL, per_tenant=8, total=20)


class SlowSession(MemorySession):
    async def close(self) -> None:
        await asyncio.sleep(CLOSE_SECONDS)
        await super().close()


@dataclass
class SlowToEnd(MemorySandbox):
    sessions: list[MemorySession] = field(default_factory=list[MemorySession])

    async def start(self, limits: SandboxLimits) -> MemorySession:
        session = SlowSession(limits)
        self.sessions.append(session)
        return session


@pytest.fixture
async def containers(make_creator: MakeCreator) -> AsyncGenerator[Containers, None]:
    creator = make_creator()
    made = Containers(SlowToEnd(), files_of(creator.store, creator.ids), creator.ids, time.time, LIMITS)
    yield made
    await made.aclose()


async def create_used(containers: Containers, tenant: str, count: int) -> None:
    for _ in range(count):
        await containers.run(await containers.create(tenant, "auto", automatic=True), "made.txt")


def living(containers: Containers, *tenants: str) -> list[Container]:
    return [one for tenant in tenants for one in containers.list(tenant) if not one.ended]


async def test_concurrent_creates_of_a_tenant_do_not_exceed_its_quota(containers: Containers) -> None:
    await create_used(containers, "a", 8)
    await asyncio.gather(*(containers.create("a", "auto", automatic=True) for _ in range(40)))
    assert len(living(containers, "a")) == 8


async def test_concurrent_creates_of_all_tenants_do_not_exceed_the_total(containers: Containers) -> None:
    tenants = ("a", "b", "c", "d")
    for tenant in ("a", "b"):
        await create_used(containers, tenant, 8)
    made = await asyncio.gather(
        *(containers.create(tenant, "auto", automatic=True) for tenant in tenants * 20),
        return_exceptions=True,
    )
    assert len(living(containers, *tenants)) == 20
    assert {type(one) for one in made} == {Container, Overloaded}


async def test_a_create_that_is_cancelled_while_it_makes_room_leaves_no_container(
    containers: Containers,
) -> None:
    await create_used(containers, "a", 8)
    creating = asyncio.create_task(containers.create("a", "named"))
    await asyncio.sleep(CLOSE_SECONDS / 4)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert len(living(containers, "a")) == 7
    assert [one.name for one in living(containers, "a")] == ["auto"] * 7
