"""Agent runs: each event is emitted once, stored before it is sent, and any replica resumes the run."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import count

import pytest

from antiphon.caller import Caller
from antiphon.errors import AntiphonError, InvalidRequest, NotFound, StoreUnavailable
from antiphon.jobs import worker
from antiphon.jobs.worker import Worker
from antiphon.orchestrator.agent_runs import AgentRuns, Perform
from antiphon.orchestrator.events import (
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentStarted,
    ToolCompleted,
    ToolStarted,
)
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse
from antiphon.orchestrator.run_journal import journal_row
from antiphon.orchestrator.run_state import Emit
from antiphon.protocol.ids import IdSource
from antiphon.store import retry, working
from antiphon.store.agent_runs import AgentRun, AgentRunStore, RunEvent
from antiphon.store.base import AGENT_RUN_JOB
from antiphon.store.ports import JobStore
from antiphon.store.signals import LocalSignals, Signals
from antiphon.store.sql_stores import SqlAgentRuns, SqlJobs
from antiphon.store.sqlite import SqliteDatabase
from antiphon.store.working import MAX_ATTEMPTS
from antiphon.turn.sealing import SealKey

REQUEST = AgentExecuteRequest(instruction="Do it.", mode="general", streaming=True)
DONE = AgentExecuteResponse(kind="ok", text="done")
Act = Callable[[AgentExecuteRequest, Sequence[AgentEvent], Emit], Awaitable[None]]
SEAL_KEY = SealKey(b"secret", bytes)

CALLER = Caller.of("t")


@pytest.fixture
async def database() -> AsyncGenerator[SqliteDatabase, None]:
    opened = await SqliteDatabase.open(None)
    yield opened
    await opened.aclose()


@pytest.fixture
def store(database: SqliteDatabase) -> AgentRunStore:
    return SqlAgentRuns(database, lambda: 1000.0)


@pytest.fixture
def jobs(database: SqliteDatabase) -> JobStore:
    return SqlJobs(database)


class Replica:
    """Runs with their own engine, as in a separate process."""

    def __init__(
        self, store: AgentRunStore, jobs: JobStore, signals: Signals, act: Act, owner: str = "here"
    ) -> None:
        numbers = count(1)
        self.cancelled_turns: list[tuple[str, str]] = []
        self.jobs = Worker(jobs, signals, owner=owner)
        self.runs = AgentRuns(
            seal=lambda tenant, body: SEAL_KEY.sealer(tenant).seal_request(body),
            unseal=lambda tenant, body: SEAL_KEY.sealer(tenant).open_request(body),
            store=store,
            jobs=self.jobs,
            signals=signals,
            ids=IdSource(lambda: 1000.0, lambda size: next(numbers).to_bytes(size, "big")),
            clock=lambda: 1000.0,
            perform=performing(act),
            cancel_turn=self._cancel_turn,
            lifetime=60.0,
        )

    async def _cancel_turn(self, caller: Caller, response_id: str) -> None:
        self.cancelled_turns.append((caller.tenant, response_id))

    async def ended(self, run_id: str) -> list[AgentEvent]:
        """All events of a run, once it has ended."""
        async with asyncio.timeout(20), aclosing(self.runs.follow(CALLER, run_id)) as events:
            return [event async for event in events if event is not None]


def performing(act: Act) -> Perform:
    async def perform(
        caller: Caller, request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit
    ) -> AgentExecuteResponse:
        assert caller == CALLER
        await act(request, past, emit)
        return DONE

    return perform


MakeReplica = Callable[..., Replica]


@pytest.fixture
async def make(store: AgentRunStore, jobs: JobStore) -> AsyncGenerator[MakeReplica, None]:
    """Builds replicas on one store; they are closed at the end."""
    signals, replicas = LocalSignals(), list[Replica]()

    def build(act: Act, owner: str = "here", on: AgentRunStore | None = None) -> Replica:
        replicas.append(Replica(on or store, jobs, signals, act, owner))
        return replicas[-1]

    yield build
    for replica in replicas:
        await replica.jobs.aclose()


def started(number: int) -> AgentStarted:
    return AgentStarted(sequence_number=number, mode="general", model="m")


def completed(number: int) -> AgentCompleted:
    return AgentCompleted(sequence_number=number, response=DONE)


async def at_once(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
    """An agent that finishes immediately."""
    await emit(started(0))
    await emit(completed(1))


async def test_a_run_is_queued_with_its_request_and_a_title(store: AgentRunStore, make: MakeReplica) -> None:
    requests: list[AgentExecuteRequest] = []

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        requests.append(request)
        await at_once(request, past, emit)

    here = make(act)
    run = await here.runs.submit(CALLER, REQUEST)
    assert (run.status, run.title, run.created_at, run.expires_at) == ("queued", "Do it.", 1000, 1060)
    assert run.id.startswith("run_")
    named = await here.runs.submit(CALLER, AgentExecuteRequest(instruction="x " * 200), "A title")
    assert named.title == "A title"
    assert await here.ended(run.id) == [started(0), completed(1)]
    await here.ended(named.id)
    assert requests[0] == AgentExecuteRequest(instruction="Do it.", mode="general"), (
        "deltas are not requested"
    )
    assert {each.id for each in await here.runs.list_runs(CALLER, limit=10)} == {run.id, named.id}
    untitled = await here.runs.submit(CALLER, AgentExecuteRequest(instruction="x " * 200))
    assert untitled.title == f"{('x ' * 40)[:79]}…"


async def test_following_a_run_yields_the_stored_events_from_any_position(make: MakeReplica) -> None:
    gate = asyncio.Event()

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await emit(started(0))
        await gate.wait()
        await emit(completed(1))

    here = make(act)
    run = await here.runs.submit(CALLER, REQUEST)
    async with aclosing(here.runs.follow(CALLER, run.id)) as events:
        assert await anext(events) == started(0)
        record = await here.runs.show(CALLER, run.id)
        assert (record.run.status, record.events) == ("in_progress", [started(0)])
        gate.set()
        assert await anext(events) == completed(1)
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    record = await here.runs.show(CALLER, run.id)
    assert (record.run.status, record.run.ended_at) == ("completed", 1000)
    assert [event async for event in here.runs.follow(CALLER, run.id, 0)] == [completed(1)]
    assert [event async for event in here.runs.follow(CALLER, run.id, 1)] == []


class EndsMeanwhile(SqlAgentRuns):
    """A run that ends between two reads of it."""

    async def run(self, tenant: str, run_id: str) -> AgentRun:
        seen = await super().run(tenant, run_id)
        claim = await self.claim(tenant, run_id)
        if claim is not None:
            await self.finish(tenant, run_id, claim.token, "completed", [journal_row(completed(0))])
        return seen


async def test_status_and_events_are_consistent(database: SqliteDatabase, make: MakeReplica) -> None:
    here = make(hangs, on=EndsMeanwhile(database, lambda: 1000.0))
    run = await here.runs.submit(CALLER, REQUEST)
    record = await here.runs.show(CALLER, run.id)
    assert (record.run.status, record.events) == ("completed", [completed(0)])


async def test_following_from_an_event_that_is_not_there_is_rejected(make: MakeReplica) -> None:
    here = make(at_once)
    run = await here.runs.submit(CALLER, REQUEST)
    await here.ended(run.id)
    with pytest.raises(InvalidRequest, match="no event with that number") as refused:
        await anext(here.runs.follow(CALLER, run.id, 7))
    assert refused.value.param == "starting_after"
    with pytest.raises(NotFound):
        await anext(here.runs.follow(CALLER, "run_x"))
    with pytest.raises(NotFound):
        await anext(here.runs.follow(Caller.of("u"), run.id))


async def test_a_silent_run_yields_heartbeats(make: MakeReplica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(working, "POLL_SECONDS", 0.001)

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await asyncio.Event().wait()

    here = make(act)
    run = await here.runs.submit(CALLER, REQUEST)
    async with aclosing(here.runs.follow(CALLER, run.id)) as events:
        assert await anext(events) is None


async def test_an_error_ends_the_run_as_failed(make: MakeReplica) -> None:
    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await emit(started(0))
        raise InvalidRequest("Results for a call that nobody made.", code="unknown_tool_call")

    here = make(act)
    run = await here.runs.submit(CALLER, REQUEST)
    _, end = await here.ended(run.id)
    assert isinstance(end, AgentFailed)
    assert (end.sequence_number, end.response.kind) == (1, "error")
    assert (end.code, end.response.error_message) == (
        "unknown_tool_call",
        "Results for a call that nobody made.",
    )
    ended = (await here.runs.show(CALLER, run.id)).run
    assert (ended.status, ended.attempts) == ("failed", 1)


@pytest.mark.parametrize("bug", ["raises", "tells no end"])
async def test_a_bug_ends_the_run_as_failed(make: MakeReplica, bug: str) -> None:
    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        if bug == "raises":
            raise ZeroDivisionError

    here = make(act)
    [end] = await here.ended((await here.runs.submit(CALLER, REQUEST)).id)
    assert isinstance(end, AgentFailed)
    assert end.code == "internal_error"


async def test_cancelling_stops_the_current_step_at_once(make: MakeReplica) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await emit(started(0))
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    here, there = make(act), make(at_once, "there")
    run = await here.runs.submit(CALLER, REQUEST)
    await begun.wait()
    assert (await there.runs.cancel(CALLER, run.id)).status == "cancelled", "from any replica"
    async with asyncio.timeout(4):  # less than POLL: the signal causes it
        await stopped.wait()
    _, end = await there.ended(run.id)
    assert type(end).__name__ == "AgentCancelled"
    assert (await here.runs.cancel(CALLER, run.id)) == (await there.runs.show(CALLER, run.id)).run
    assert len(await here.ended(run.id)) == 2, "an ended run is not changed"


async def test_deleting_a_run_stops_it_first(make: MakeReplica) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    here = make(act)
    run = await here.runs.submit(CALLER, REQUEST)
    await begun.wait()
    await here.runs.delete(CALLER, run.id)
    assert stopped.is_set()
    with pytest.raises(NotFound):
        await here.runs.show(CALLER, run.id)
    with pytest.raises(NotFound):
        await here.runs.delete(CALLER, run.id)


async def test_the_next_owner_resumes_from_the_log_and_the_first_is_stopped(
    make: MakeReplica,
) -> None:
    did: list[str] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def loses(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await emit(started(0))
        begun.set()
        await gate.wait()
        await emit(ToolStarted(sequence_number=1, turn=1, call_id="c", name="pay", arguments_json="{}"))
        did.append("paid twice")

    async def wins(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        assert past == [started(0)]
        await emit(ToolStarted(sequence_number=1, turn=1, call_id="c", name="pay", arguments_json="{}"))
        did.append("paid")
        await emit(completed(2))

    here, there = make(loses, "here"), make(wins, "there")
    run = await here.runs.submit(CALLER, REQUEST)
    await begun.wait()
    await there.runs.resume(CALLER, run.id)
    events = await there.ended(run.id)
    gate.set()
    async with asyncio.timeout(20):
        await here.jobs.stop(AGENT_RUN_JOB, "t", run.id)
    assert did == ["paid"]
    assert [event.sequence_number for event in events] == [0, 1, 2]


async def test_a_worker_in_the_middle_of_a_tool_stops_when_its_run_was_taken_over(
    jobs: JobStore, make: MakeReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "COMPARE_SECONDS", 0.01)
    at_work, stopped = asyncio.Event(), asyncio.Event()

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    run = await make(act).runs.submit(CALLER, REQUEST)
    await at_work.wait()
    assert await jobs.claim_one("elsewhere", AGENT_RUN_JOB, "t", run.id, 0.0) is not None
    async with asyncio.timeout(20):
        await stopped.wait()


async def test_a_repeatedly_crashing_run_fails(jobs: JobStore, make: MakeReplica) -> None:
    here = make(at_once)
    run = await make(hangs, "first").runs.submit(CALLER, REQUEST)
    for attempt in range(MAX_ATTEMPTS):
        await jobs.claim_one(f"dying {attempt}", AGENT_RUN_JOB, "t", run.id, 0.0)
    await here.runs.resume(CALLER, run.id)
    [end] = await here.ended(run.id)
    assert isinstance(end, AgentFailed)
    assert end.code == "given_up"


async def hangs(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
    await asyncio.Event().wait()


class Flaky(SqlAgentRuns):
    """A database that fails the next writes."""

    away = 0

    async def append(self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable
        await super().append(tenant, run_id, token, events)


async def test_a_database_that_is_away_is_waited_for_and_no_tool_is_forgotten(
    database: SqliteDatabase, make: MakeReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.0)
    flaky, ran = Flaky(database, lambda: 1000.0), list[str]()

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        await emit(ToolStarted(sequence_number=0, turn=1, call_id="c", name="pay", arguments_json="{}"))
        ran.append("paid")
        flaky.away = 3
        done = ToolCompleted(
            sequence_number=1, turn=1, call_id="c", name="pay", outcome="ok", output="", elapsed_ms=1
        )
        await emit(done)
        await emit(completed(2))

    here = make(act, on=flaky)
    events = await here.ended((await here.runs.submit(CALLER, REQUEST)).id)
    assert ([event.sequence_number for event in events], ran) == ([0, 1, 2], ["paid"])


async def test_a_model_request_that_failed_for_the_database_is_retried(
    make: MakeReplica,
) -> None:
    attempts: list[int] = []

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        attempts.append(len(past))
        if len(attempts) == 1:
            await emit(started(0))
            away = AgentExecuteResponse(kind="error", error_code="store_unavailable", error_message="away")
            await emit(AgentFailed(sequence_number=1, response=away, code="store_unavailable"))
        await emit(completed(1))

    here = make(act)
    events = await here.ended((await here.runs.submit(CALLER, REQUEST)).id)
    assert (events, attempts) == ([started(0), completed(1)], [0, 1])


async def test_a_long_database_outage_does_not_count_as_an_attempt(
    make: MakeReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.0)
    tries = itertools.count()

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        if next(tries) < 1500:
            raise StoreUnavailable
        await emit(completed(0))

    here = make(act)
    run = await here.runs.submit(CALLER, REQUEST)
    assert await here.ended(run.id) == [completed(0)]
    assert (await here.runs.show(CALLER, run.id)).run.attempts == 1


async def test_a_truncated_log_is_resumed_from_its_remaining_events(
    make: MakeReplica,
) -> None:
    attempts: list[int] = []

    async def act(request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit) -> None:
        attempts.append(len(past))
        await emit(started(5) if len(attempts) == 1 else completed(0))

    here = make(act)
    assert await here.ended((await here.runs.submit(CALLER, REQUEST)).id) == [completed(0)]
    assert attempts == [0, 0]


async def test_a_run_that_cannot_be_started_is_not_stored(make: MakeReplica) -> None:
    here = make(at_once)
    await here.jobs.aclose()
    with pytest.raises(AntiphonError):
        await here.runs.submit(CALLER, REQUEST)
    assert await here.runs.list_runs(CALLER, limit=1) == []
