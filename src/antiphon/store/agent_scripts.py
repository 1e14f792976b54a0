"""Scripts of agent runs: their claims and their event logs."""

from collections.abc import Sequence

from antiphon.errors import AntiphonError, NotFound
from antiphon.store import jobs
from antiphon.store.agent_runs import UNFINISHED_RUN, AgentRun, RunClaim, RunEvent, RunStatus
from antiphon.store.base import AGENT_RUN_JOB, LOG_GAP, Fenced, Job, NewJob
from antiphon.store.database import Row, Script, Statement


def submit(tenant: str, run: AgentRun, request: bytes, owner: str | None) -> Script[None]:
    """Save a queued run and its job. Repeating it is harmless."""
    row = (tenant, run.id, run.status, run.title, request.decode(), run.created_at, run.expires_at)
    yield Statement("add_agent_run", row)
    yield from jobs.add(NewJob(kind=AGENT_RUN_JOB, tenant=tenant, id=run.id), owner)


def claim(tenant: str, run_id: str, job: Job | None, now: int) -> Script[RunClaim | None]:
    """Claim an unfinished run: for a claimed job, or, without a job, to cancel it."""
    if job is not None:
        yield from jobs.fence(job)
    attempt, owner = (None, None) if job is None else (job.broken_off + 1, job.owner)
    rows = yield Statement("claim_agent_run", (tenant, run_id, now, attempt, owner))
    if not rows:
        return None
    token, request, *members = rows[0]
    run = _run(members)
    log = yield Statement("agent_events_after", (tenant, run_id, -1))
    return RunClaim(token=token, attempt=run.attempts, run=run, request=request.encode(), events=_events(log))


def append(tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> Script[None]:
    """Append to the log. Repeating it is harmless: the result of the first attempt may have got lost."""
    first, end = _range(events)
    if (yield Statement("progress_agent_run", (tenant, run_id, token, first, end))):
        yield from jobs.progress(AGENT_RUN_JOB, tenant, run_id)
        yield from _log(tenant, run_id, events)
        return
    stored = yield from _place(tenant, run_id, token)
    if stored != end:
        raise _gap(run_id, stored, first)


def wait(tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> Script[None]:
    """Append to the log and leave the run. Its job stays, not due, so that its token never repeats."""
    yield Statement("park_job", (AGENT_RUN_JOB, tenant, run_id))
    yield from _move(tenant, run_id, token, events, "waiting")


def answer(
    tenant: str, run_id: str, token: int, events: Sequence[RunEvent], *, proceed: bool
) -> Script[None]:
    """Append to the log of a waiting run, and have it continued."""
    if proceed:
        yield from jobs.add(NewJob(kind=AGENT_RUN_JOB, tenant=tenant, id=run_id))
        yield Statement("wake_job", (AGENT_RUN_JOB, tenant, run_id))
    yield from _move(tenant, run_id, token, events, "queued" if proceed else "waiting")


def _move(
    tenant: str, run_id: str, token: int, events: Sequence[RunEvent], status: RunStatus
) -> Script[None]:
    """Append to the log, with a new status. Repeating it is harmless."""
    first, end = _range(events)
    if (yield Statement("move_agent_run", (tenant, run_id, token, first, end, status))):
        yield from _log(tenant, run_id, events)
        return
    stored = yield from _place(tenant, run_id, token)
    if stored != end:
        raise _gap(run_id, stored, first)


def waiting(tenant: str, limit: int, now: int) -> Script[list[AgentRun]]:
    """The runs that wait, newest first."""
    return [_run(row) for row in (yield Statement("waiting_agent_runs", (tenant, now, limit)))]


def finish(
    tenant: str, run_id: str, token: int, status: RunStatus, events: Sequence[RunEvent], *, now: int
) -> Script[None]:
    """Save the last events and the final status."""
    first, end = _range(events)
    yield from jobs.remove(AGENT_RUN_JOB, [(tenant, run_id)])
    if not (yield Statement("finish_agent_run", (tenant, run_id, token, first, end, status, now))):
        stored = yield from _place(tenant, run_id, token)
        raise _gap(run_id, stored, first)
    yield from _log(tenant, run_id, events)


def _range(events: Sequence[RunEvent]) -> tuple[int, int]:
    """The number of the first event, and the number after the last one."""
    return events[0].number, events[-1].number + 1


def _place(tenant: str, run_id: str, token: int) -> Script[int]:
    """The next event number of an unfinished run. Raises `Fenced` unless this token is the newest."""
    rows = yield Statement("place_in_agent_run", (tenant, run_id, token))
    if not rows:
        raise Fenced(f"Run '{run_id}' was claimed by another owner, or it has ended.")
    return rows[0][0]


def _gap(run_id: str, stored: int, first: int) -> AntiphonError:
    """The error after the database has lost events. The next claim continues from the stored ones."""
    message = f"The log of run '{run_id}' ends before event {stored}, not {first}. Claim it again."
    return AntiphonError(message, code=LOG_GAP)


def _log(tenant: str, run_id: str, events: Sequence[RunEvent]) -> Script[None]:
    rows = [(tenant, run_id, event.number, event.data.decode()) for event in events]
    yield Statement("add_agent_event", rows, many=True)


def find(tenant: str, run_id: str, now: int) -> Script[AgentRun]:
    """Return one run."""
    rows = yield Statement("find_agent_run", (tenant, run_id, now))
    if not rows:
        raise run_not_found(run_id)
    return _run(rows[0])


def events(tenant: str, run_id: str, after: int, now: int) -> Script[tuple[Sequence[RunEvent], bool]]:
    """The events after `after`, and whether the run has ended."""
    run = yield from find(tenant, run_id, now)
    rows = yield Statement("agent_events_after", (tenant, run_id, after))
    return _events(rows), run.status not in UNFINISHED_RUN


def newest(tenant: str, limit: int, after: str | None, now: int) -> Script[list[AgentRun]]:
    """Runs, newest first; with `after`, those that follow that run in the list."""
    created_at = None
    if after is not None:
        created_at = (yield from find(tenant, after, now)).created_at
    rows = yield Statement("newest_agent_runs", (tenant, now, created_at, after, limit))
    return [_run(row) for row in rows]


def delete(tenant: str, run_id: str, now: int) -> Script[None]:
    """Delete a run. Raises `NotFound`."""
    yield from find(tenant, run_id, now)
    yield from forget([(tenant, run_id)])


def forget(runs: Sequence[Row]) -> Script[None]:
    """Erase runs, given by tenant and id, with their logs."""
    keys = [(tenant, run_id) for tenant, run_id in runs]
    yield from jobs.remove(AGENT_RUN_JOB, keys)
    if keys:
        yield Statement("delete_agent_run", keys, many=True)
        yield Statement("delete_agent_events", keys, many=True)


def _run(row: Row) -> AgentRun:
    run_id, status, title, created_at, ended_at, attempts, expires_at = row
    return AgentRun(
        id=run_id,
        status=status,
        title=title,
        created_at=created_at,
        ended_at=ended_at,
        attempts=attempts,
        expires_at=expires_at,
    )


def _events(rows: Sequence[Row]) -> list[RunEvent]:
    return [RunEvent(number, data.encode()) for number, data in rows]


def run_not_found(run_id: str) -> NotFound:
    """The same 404 for unknown, foreign, deleted and expired runs."""
    return NotFound(f"Agent run with id '{run_id}' not found.")
