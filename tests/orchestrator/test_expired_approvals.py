"""An approval of an agent run that has expired while it waited."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import count

import pytest

from antiphon.caller import Caller
from antiphon.errors import NotFound
from antiphon.jobs.worker import Worker
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.orchestrator.events import AgentEvent, AgentStarted, AgentWaiting
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    ApprovalAnswer,
    ApprovalRequest,
)
from antiphon.orchestrator.run_state import Emit
from antiphon.protocol.ids import IdSource
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from tests.orchestrator.test_agent_runs import SEAL_KEY
from tests.store.conftest import Clock

CALLER = Caller.of("t")
LIFETIME_SECONDS = 60.0
ASKED = ApprovalRequest(id="call_1", kind="agent", name="pay", arguments="{}")
YES = ApprovalAnswer(id="call_1", approve=True)


class Asking:
    """An agent that waits for an approval at once."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def __call__(
        self, _caller: Caller, _request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit
    ) -> AgentExecuteResponse:
        await emit(AgentStarted(sequence_number=len(past), mode="general", model="m"))
        await emit(AgentWaiting(sequence_number=len(past) + 1, turn=0, approvals=(ASKED,)))
        self.waits.set()
        return AgentExecuteResponse(kind="ok", text="")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def runs(clock: Clock) -> AsyncGenerator[AgentRuns, None]:
    stores = sql_stores(await SqliteDatabase.open(None), LocalSignals(), clock)
    jobs, numbers = Worker(stores.jobs, stores.signals, owner="here"), count(1)
    yield AgentRuns(
        seal=lambda tenant, body: SEAL_KEY.sealer(tenant).seal_request(body),
        unseal=lambda tenant, body: SEAL_KEY.sealer(tenant).open_request(body),
        store=stores.agent_runs,
        jobs=jobs,
        signals=stores.signals,
        ids=IdSource(clock, lambda size: next(numbers).to_bytes(size, "big")),
        clock=clock,
        perform=Asking(),
        lifetime=LIFETIME_SECONDS,
    )
    await jobs.aclose()
    await stores.aclose()


async def waiting(runs: AgentRuns) -> str:
    run = await runs.submit(CALLER, AgentExecuteRequest(instruction="Pay.", mode="general"))
    assert isinstance(runs.perform, Asking)
    async with asyncio.timeout(10):
        await runs.perform.waits.wait()
    return run.id


async def test_the_approval_of_an_expired_run_is_refused(runs: AgentRuns, clock: Clock) -> None:
    run_id = await waiting(runs)
    clock.now += LIFETIME_SECONDS
    with pytest.raises(NotFound) as refused:
        await runs.answer(CALLER, run_id, YES)
    assert refused.value.message == f"Agent run with id '{run_id}' not found."
    assert await runs.waiting(CALLER, 1) == []


async def test_until_then_it_is_accepted(runs: AgentRuns, clock: Clock) -> None:
    run_id = await waiting(runs)
    clock.now += LIFETIME_SECONDS - 1
    assert (await runs.answer(CALLER, run_id, YES, works_here=False)).status == "queued"
