"""The background responses that make turns of runs end when their run is cancelled."""

import asyncio
from collections.abc import Sequence

import pytest

from antiphon.orchestrator.events import AgentEvent, TurnCompleted, TurnStarted
from antiphon.orchestrator.models import AgentExecuteRequest
from antiphon.orchestrator.run_state import Emit
from tests.orchestrator.test_agent_runs import (
    CALLER,
    DONE,
    REQUEST,
    MakeReplica,
    at_once,
    completed,
    database,
    hangs,
    jobs,
    make,
    store,
)

__all__ = ["database", "jobs", "make", "store"]


def turn_started(number: int, response_id: str | None = "resp_1") -> TurnStarted:
    return TurnStarted(sequence_number=number, turn=1, response_id=response_id)


@pytest.mark.parametrize("response_id", ["resp_1", None])
async def test_cancelling_a_run_ends_the_background_response_of_its_turn(
    make: MakeReplica, response_id: str | None
) -> None:
    begun = asyncio.Event()

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await emit(turn_started(0, response_id))
        begun.set()
        await asyncio.Event().wait()

    here, there = make(act), make(at_once, "there")
    run = await here.runs.submit(CALLER, REQUEST)
    await begun.wait()
    await there.runs.cancel(CALLER, run.id)
    assert there.cancelled_turns == ([] if response_id is None else [("t", response_id)])
    await there.runs.cancel(CALLER, run.id)
    assert len(there.cancelled_turns) == 2 * (response_id is not None), "a repeated request completes it"


async def test_cancelling_a_run_leaves_the_response_of_an_answered_turn(make: MakeReplica) -> None:
    answered = asyncio.Event()

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await emit(turn_started(0))
        await emit(TurnCompleted(sequence_number=1, turn=1, response=DONE))
        answered.set()
        await asyncio.Event().wait()

    here = make(act)
    run = await here.runs.submit(CALLER, REQUEST)
    await answered.wait()
    await here.runs.cancel(CALLER, run.id)
    assert here.cancelled_turns == []


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_turn_that_is_submitted_after_its_run_was_cancelled_is_ended(
    make: MakeReplica, cancelled: bool
) -> None:
    """The process that submits it ends it. If another process has taken the run over, that one follows it."""
    begun, gate = asyncio.Event(), asyncio.Event()

    async def submits(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await emit(turn_started(0))
        begun.set()
        await gate.wait()
        await emit(completed(1))

    here, there = make(submits), make(hangs, "there")
    run = await here.runs.submit(CALLER, REQUEST)
    await begun.wait()
    if cancelled:
        await there.runs.cancel(CALLER, run.id)
    else:
        await there.runs.resume(CALLER, run.id)
    gate.set()
    async with asyncio.timeout(20):
        while cancelled and not here.cancelled_turns:  # noqa: ASYNC110 -- seen from outside
            await asyncio.sleep(0.01)
        await here.jobs.aclose()
    assert here.cancelled_turns == ([("t", "resp_1")] if cancelled else [])
