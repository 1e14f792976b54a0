"""Runs of an agent in the background: submit, work, follow, cancel.

The row of a run is authoritative, and its log is the state of the agent. One process claims a run, and the
newest claim wins: the store rejects the next event of an earlier claim, before its agent takes the next step.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.caller import Caller
from antiphon.errors import (
    AntiphonError,
    BackendBroken,
    InvalidRequest,
    NotFound,
    StoreFull,
    StoreUnavailable,
)
from antiphon.jobs.kinds import Kind
from antiphon.jobs.worker import Worker
from antiphon.orchestrator.events import AgentCancelled, AgentEvent, ApprovalAnswered
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    ApprovalAnswer,
    ApprovalRequest,
)
from antiphon.orchestrator.run_journal import Journal, journal_row, read_journal
from antiphon.orchestrator.run_state import Emit, RunState
from antiphon.protocol.ids import Clock, IdSource
from antiphon.store import retry
from antiphon.store.agent_runs import UNFINISHED_RUN, AgentRun, AgentRunStore, RunClaim, RunEvent
from antiphon.store.base import AGENT_RUN_JOB, LOG_GAP, Fenced, Job
from antiphon.store.signals import Signals
from antiphon.store.working import MAX_ATTEMPTS, ShieldedTasks, follow_rows

logger = logging.getLogger(__name__)

ID_PREFIX = "run"
MAX_DERIVED_TITLE_CHARS = 80
"""The length of a title that is derived from the instruction."""

Perform = Callable[[Caller, AgentExecuteRequest, Sequence[AgentEvent], Emit], Awaitable[AgentExecuteResponse]]
"""Processes a request of a caller: `await perform(caller, request, past, tell)`. It resumes from the events
in `past`, continues their numbers, and passes each event to `tell` before the next step. The last event is
terminal."""


class WaitingRun(Struct, frozen=True):
    """A run that waits, and its requests."""

    run: AgentRun
    approvals: tuple[ApprovalRequest, ...]


class Submitter(Struct, frozen=True, omit_defaults=True):
    """The key that submitted a run, with which it is performed. Who answers an approval does not matter."""

    key_id: str | None = None
    tools: frozenset[str] | None = None
    """The hosted tools that the key may use; None: all."""


class _Submission(Struct):
    """The member of a stored request that is not the agent's. Older versions did not store it."""

    submitter: Submitter = Submitter()


class RunRecord(Struct, frozen=True):
    """A run with its stored events."""

    run: AgentRun
    events: Sequence[AgentEvent]


@dataclass(slots=True, kw_only=True)
class AgentRuns:
    """Submits, performs, follows and cancels runs in the background."""

    store: AgentRunStore
    jobs: Worker
    signals: Signals
    ids: IdSource
    clock: Clock
    perform: Perform
    seal: Callable[[str, bytes], bytes]
    """Seals a tenant's request for the store: the client's tools may contain credentials."""
    unseal: Callable[[str, bytes], bytes | None]
    """Opens a sealed request; None if it was sealed with another key."""
    lifetime: float | None = None
    """Seconds until a run is deleted; None: it is not deleted automatically."""
    _shielded: ShieldedTasks = field(init=False, default_factory=ShieldedTasks)

    def __post_init__(self) -> None:
        self.jobs.register(Kind(name=AGENT_RUN_JOB, work=self.work))

    async def submit(self, caller: Caller, request: AgentExecuteRequest, title: str = "") -> AgentRun:
        """Save and return a queued run. Its turns are not streamed, because text deltas are not stored."""
        now = self.clock()
        run = AgentRun(
            id=self.ids.new(ID_PREFIX),
            status="queued",
            title=title or _title(request),
            created_at=int(now),
            expires_at=None if self.lifetime is None else int(now + self.lifetime),
        )
        body = _encode(replace(request, streaming=False), caller)
        await self._shielded.run(self._save(caller.tenant, run, self.seal(caller.tenant, body)))
        return run

    async def _save(self, tenant: str, run: AgentRun, body: bytes) -> None:
        try:
            await self.jobs.submit(
                AGENT_RUN_JOB, tenant, run.id, lambda owner: self.store.submit(tenant, run, body, owner)
            )
        except AntiphonError:
            # The client receives an error, so the run is deleted.
            with suppress(AntiphonError):
                await self.store.delete(tenant, run.id)
            raise

    async def resume(self, caller: Caller, run_id: str) -> AgentRun:
        """Continue an unfinished run in this process. One that has ended or waits is unchanged."""
        run = await self.store.run(caller.tenant, run_id)
        if run.status in UNFINISHED_RUN and run.status != "waiting":
            await self.jobs.resume(AGENT_RUN_JOB, caller.tenant, run_id)
        return run

    async def work(self, job: Job) -> None:
        """Perform a submitted run, or continue it. Returns when it has ended or another owner has it."""
        try:
            claim = await self.store.claim(job.tenant, job.id, job)
            if claim is not None:
                await self._attempt(job.tenant, claim)
        except Fenced:
            logger.info("agent run %s was taken over or has ended", job.id)

    async def _attempt(self, tenant: str, claim: RunClaim) -> None:
        """Make one attempt. A wait for an unavailable database does not count as another attempt."""
        while True:
            try:
                return await self._try(tenant, claim)
            except (StoreUnavailable, StoreFull) as error:
                logger.warning("the agent run %s waits for the database: %s", claim.run.id, error.message)
            await asyncio.sleep(retry.RETRY_SECONDS)
            claim = replace(claim, events=await self._reread(tenant, claim))

    async def _try(self, tenant: str, claim: RunClaim) -> None:
        """Perform the run; errors end it as failed. If the database is unavailable or has lost a part of the
        log, the error is raised, and the run is tried again from the stored events."""
        journal = Journal(self.store, self.signals, tenant, claim)
        try:
            await self._perform(tenant, claim, journal)
        except (Fenced, StoreUnavailable, StoreFull):
            raise
        except AntiphonError as error:
            if error.code == LOG_GAP:
                raise
            await journal.fail(error)
        except Exception:
            logger.exception("run %s broke", claim.run.id)
            await journal.fail(AntiphonError("Internal error; see the server log.", code="internal_error"))

    async def _perform(self, tenant: str, claim: RunClaim, journal: Journal) -> None:
        if claim.attempt > MAX_ATTEMPTS:
            raise BackendBroken(
                f"Given up: {claim.attempt - 1} attempts broke off without an end.", code="given_up"
            )
        caller, request = _decode(tenant, self._opened(tenant, claim.request))
        await self.perform(caller, request, read_journal(claim.events), journal.tell)
        if not (journal.ended or journal.waits):
            raise RuntimeError("the agent ended without a terminal event")

    def _opened(self, tenant: str, request: bytes) -> bytes:
        """Open a stored request. Older versions did not seal it."""
        body = request if request.startswith(b"{") else self.unseal(tenant, request)
        if body is None:
            message = "The request of this run was sealed with another 'seal.key'. Submit it again."
            raise InvalidRequest(message, code="invalid_encrypted_content")
        return body

    async def _reread(self, tenant: str, claim: RunClaim) -> Sequence[RunEvent]:
        """The current log of a claimed run."""
        try:
            return (await self.store.events(tenant, claim.run.id))[0]
        except StoreUnavailable:
            return claim.events

    async def cancel(self, caller: Caller, run_id: str) -> AgentRun:
        """Cancel a run, whichever process works on it. An ended run is unchanged."""
        run = await self.store.run(caller.tenant, run_id)
        while run.status in UNFINISHED_RUN:
            claim = await self.store.claim(caller.tenant, run_id)
            if claim is not None:
                end = journal_row(AgentCancelled(sequence_number=len(claim.events)))
                with suppress(Fenced):
                    await self.store.finish(caller.tenant, run_id, claim.token, "cancelled", [end])
            run = await self.store.run(caller.tenant, run_id)
        self.signals.publish(f"events:{run_id}")
        await self.jobs.stop(AGENT_RUN_JOB, caller.tenant, run_id)
        return run

    async def answer(
        self, caller: Caller, run_id: str, answer: ApprovalAnswer, *, works_here: bool = True
    ) -> AgentRun:
        """Answer an approval request of a run, which continues after the last one: if no other process has
        capacity, in this one, unless `works_here` is false. Raises `NotFound` for an
        unknown request, and `InvalidRequest` for one that was answered, or of a run that has ended."""
        while True:
            run = await self.store.run(caller.tenant, run_id)
            claim = await self.store.claim(caller.tenant, run_id) if run.status == "waiting" else None
            rows = await self._rows(caller.tenant, run_id) if claim is None else claim.events
            state = RunState(read_journal(rows))
            row = journal_row(_answered(run_id, state, answer))
            if claim is None:
                continue  # it was answered or cancelled between two reads
            with suppress(Fenced):
                await self.store.answer(
                    caller.tenant, run_id, claim.token, [row], proceed=len(state.pending) == 1
                )
                break
        self.signals.publish(f"events:{run_id}")
        run = await self.store.run(caller.tenant, run_id)
        if works_here and run.status == "queued":
            await self.jobs.begin(AGENT_RUN_JOB, caller.tenant, [run_id])
        else:
            self.jobs.wake_all()
        return run

    async def _rows(self, tenant: str, run_id: str) -> Sequence[RunEvent]:
        return (await self.store.events(tenant, run_id))[0]

    async def waiting(self, caller: Caller, limit: int) -> list[WaitingRun]:
        """The runs that wait for a person, newest first, with their requests."""
        found: list[WaitingRun] = []
        for run in await self.store.waiting(caller.tenant, limit):
            state = RunState(read_journal(await self._rows(caller.tenant, run.id)))
            if state.pending:  # else it was answered between the two reads
                found.append(WaitingRun(run, tuple(state.pending.values())))
        return found

    async def follow(
        self, caller: Caller, run_id: str, after: int = -1
    ) -> AsyncGenerator[AgentEvent | None, None]:
        """Yield the events with numbers above `after` as they are stored, until the last one.

        None is a heartbeat of a run without new events. Errors are raised at the first step.
        """
        await self._check_place(caller.tenant, run_id, after)
        with self.signals.subscribe(f"events:{run_id}") as more:
            batches = follow_rows(lambda: self.store.events(caller.tenant, run_id, after), more)
            async with aclosing(batches):
                async for rows in batches:
                    if not rows:
                        yield None
                    for event in read_journal(rows):
                        yield event
                        after = event.sequence_number

    async def _check_place(self, tenant: str, run_id: str, after: int) -> None:
        if after < 0:
            await self.store.run(tenant, run_id)
            return
        rows, _ = await self.store.events(tenant, run_id, after - 1)
        if not rows:
            message = f"'starting_after' is {after}, but there is no event with that number."
            raise InvalidRequest(message, param="starting_after", code="invalid_value")

    async def list_runs(self, caller: Caller, *, limit: int, after: str | None = None) -> Sequence[AgentRun]:
        """Runs, newest first; `after` is an id."""
        return await self.store.list_runs(caller.tenant, limit=limit, after=after)

    async def show(self, caller: Caller, run_id: str) -> RunRecord:
        """A run and its stored events."""
        run = await self.store.run(caller.tenant, run_id)
        rows, ended = await self.store.events(caller.tenant, run_id)
        if ended and run.status in UNFINISHED_RUN:  # it has ended between the two reads
            run = await self.store.run(caller.tenant, run_id)
        return RunRecord(run, read_journal(rows))

    async def delete(self, caller: Caller, run_id: str) -> None:
        """Delete a run; an unfinished one is cancelled first."""
        run = await self.store.run(caller.tenant, run_id)
        if run.status in UNFINISHED_RUN:
            await self.cancel(caller, run_id)
        await self.store.delete(caller.tenant, run_id)


def _answered(run_id: str, state: RunState, answer: ApprovalAnswer) -> ApprovalAnswered:
    """The event of an answer."""
    if state.end is None and answer.id in state.pending:
        return ApprovalAnswered(sequence_number=state.next_number, turn=state.turn, answer=answer)
    if any(key.call_id == answer.id for key in state.approvals):
        message = f"The approval request '{answer.id}' was already answered."
        raise InvalidRequest(message, param="approval_request_id", code="already_answered")
    if state.end is not None:
        message = f"The run '{run_id}' has ended, so nothing waits for an approval."
        raise InvalidRequest(message, param="approval_request_id", code="run_ended")
    raise NotFound(f"The run '{run_id}' has no approval request with id '{answer.id}'.")


def _encode(request: AgentExecuteRequest, caller: Caller) -> bytes:
    """A request with its submitter, as one object."""
    submission = _Submission(Submitter(caller.key_id, caller.tools))
    return msgspec.json.encode({**msgspec.to_builtins(request), **msgspec.to_builtins(submission)})


def _decode(tenant: str, body: bytes) -> tuple[Caller, AgentExecuteRequest]:
    """The caller to perform a stored request for, and the request."""
    submitter = msgspec.json.decode(body, type=_Submission).submitter
    caller = Caller(tenant, key_id=submitter.key_id, tools=submitter.tools)
    return caller, msgspec.json.decode(body, type=AgentExecuteRequest)


def _title(request: AgentExecuteRequest) -> str:
    title = " ".join((request.instruction or "").split())
    title = title or f"continues {request.response_continuation_id}"
    return title if len(title) <= MAX_DERIVED_TITLE_CHARS else f"{title[: MAX_DERIVED_TITLE_CHARS - 1]}…"
