"""The contract of `CallRecord`, for its implementations: the one in memory, and the log of an agent run."""

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from antiphon.errors import Fenced
from antiphon.orchestrator.run_journal import Journal, read_journal
from antiphon.orchestrator.run_state import RunLog
from antiphon.orchestrator.tool import ToolResult
from antiphon.store.agent_runs import AgentRun
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import SqlAgentRuns
from antiphon.store.sqlite import SqliteDatabase
from antiphon.tools.call_record import (
    CallEnded,
    CallKey,
    CallMemory,
    CallRecord,
    CallStarted,
    RecordedCall,
    next_step,
)
from antiphon.tools.declaration import ToolOutput

Attempt = Callable[[], Awaitable[CallRecord]]
"""Starts a new attempt at the same work: it sees earlier records, and fences earlier attempts."""

KEY = CallKey(1, "call_1")
STARTED = CallStarted(key=KEY, name="pay", arguments='{"n": 1}')
ENDED = CallEnded(outcome="ok", result=ToolOutput(output="paid"), elapsed_ms=7)


@pytest.fixture(params=["memory", "agent run"])
async def attempt(request: pytest.FixtureRequest) -> AsyncGenerator[Attempt, None]:
    if request.param == "memory":
        memory = CallMemory()

        async def in_memory() -> CallRecord:
            return memory.attempt()

        yield in_memory
        return
    database = await SqliteDatabase.open(None)
    store = SqlAgentRuns(database, lambda: 1000.0)
    await store.submit("t", AgentRun(id="run_1", status="queued", title="", created_at=1), b"{}", "here")

    async def of_the_run() -> CallRecord:
        claim = await store.claim("t", "run_1")
        assert claim is not None
        journal = Journal(store, LocalSignals(), "t", claim)
        return RunLog(read_journal(claim.events), journal.tell)

    yield of_the_run
    await database.aclose()


async def test_a_call_that_was_never_started_is_not_found(attempt: Attempt) -> None:
    assert (await attempt()).find(KEY) is None


async def test_a_started_call_is_found_without_an_end(attempt: Attempt) -> None:
    record = await attempt()
    await record.start(STARTED)
    assert record.find(KEY) == RecordedCall(STARTED)


async def test_an_ended_call_is_found_with_its_result(attempt: Attempt) -> None:
    record = await attempt()
    await record.start(STARTED)
    await record.end(KEY, ENDED)
    found = record.find(KEY)
    assert found is not None
    assert found.ended is not None
    assert (found.started, found.ended.outcome, found.ended.elapsed_ms) == (STARTED, "ok", 7)
    assert found.ended.result.output == "paid"


async def test_the_next_attempt_finds_the_records(attempt: Attempt) -> None:
    first, cut_off = await attempt(), CallStarted(key=CallKey(1, "b"), name="t", arguments="", runs=False)
    await first.start(STARTED)
    await first.end(KEY, ENDED)
    await first.start(cut_off)
    second = await attempt()
    found = second.find(KEY)
    assert found is not None
    assert found.ended is not None
    assert found.ended.result.output == "paid"
    assert second.find(cut_off.key) == RecordedCall(cut_off)


async def test_the_next_attempt_can_end_an_interrupted_call(attempt: Attempt) -> None:
    await (await attempt()).start(STARTED)
    second = await attempt()
    await second.end(KEY, CallEnded(outcome="interrupted", result=ToolOutput(output="unknown")))
    found = (await attempt()).find(KEY)
    assert found is not None
    assert found.ended is not None
    assert (found.started, found.ended.outcome) == (STARTED, "interrupted")


async def test_the_same_id_in_another_turn_is_another_call(attempt: Attempt) -> None:
    record = await attempt()
    await record.start(STARTED)
    assert record.find(CallKey(2, KEY.call_id)) is None


async def test_an_attempt_that_was_taken_over_cannot_write(attempt: Attempt) -> None:
    first = await attempt()
    await first.start(STARTED)
    second = await attempt()
    with pytest.raises(Fenced):
        await first.start(CallStarted(key=CallKey(1, "b"), name="t", arguments=""))
    with pytest.raises(Fenced):
        await first.end(KEY, ENDED)
    await second.end(KEY, ENDED)
    third = await attempt()
    assert third.find(CallKey(1, "b")) is None


async def test_the_log_of_a_run_also_stores_files_and_mode() -> None:
    log = RunLog((), None)
    result = ToolResult(output="ok", mode="qa")
    await log.start(STARTED)
    await log.end(KEY, CallEnded(outcome="ok", result=result))
    assert log.find(KEY) == RecordedCall(STARTED, CallEnded(outcome="ok", result=result))


WITHOUT_RUNNING = CallStarted(key=KEY, name="pay", arguments="", runs=False)


@pytest.mark.parametrize(
    ("recorded", "has_side_effects", "step"),
    [
        (None, True, "run"),
        (None, False, "run"),
        (RecordedCall(STARTED), True, "report_unknown"),
        (RecordedCall(STARTED), False, "run"),
        (RecordedCall(WITHOUT_RUNNING), True, "run"),
        (RecordedCall(STARTED, ENDED), True, "use_result"),
        (RecordedCall(STARTED, ENDED), False, "use_result"),
    ],
)
def test_the_next_step_depends_on_the_record_and_on_side_effects(
    recorded: RecordedCall | None, has_side_effects: bool, step: str
) -> None:
    assert next_step(recorded, has_side_effects=has_side_effects) == step
