"""Whom a run in the background is performed for: the key that submitted it, whoever resumes or approves it."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from antiphon.caller import SCOPES, Caller
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.orchestrator.events import AgentCompleted, AgentEvent, AgentWaiting
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    ApprovalAnswer,
    ApprovalRequest,
)
from antiphon.orchestrator.run_state import Emit
from antiphon.store.agent_runs import AgentRun, AgentRunStore
from antiphon.store.ports import JobStore
from tests.orchestrator.test_agent_runs import SEAL_KEY, MakeReplica, database, jobs, make, store

__all__ = ["database", "jobs", "make", "store"]

REQUEST = AgentExecuteRequest(instruction="Do it.", image_attachments=())
DONE = AgentExecuteResponse(kind="ok", text="done")
PAY = ApprovalRequest(id="call_1", kind="agent", name="pay", arguments="{}")


class Performed:
    """Records for whom runs are performed. A run waits for an approval first, and then ends."""

    def __init__(self, runs: AgentRuns, *, waits: bool = False) -> None:
        self.callers: list[Caller] = []
        self.requests: list[AgentExecuteRequest] = []
        self._waits = waits
        runs.perform = self._perform

    async def _perform(
        self, caller: Caller, request: AgentExecuteRequest, past: Sequence[AgentEvent], emit: Emit
    ) -> AgentExecuteResponse:
        self.callers.append(caller)
        self.requests.append(request)
        if self._waits and not past:
            await emit(AgentWaiting(sequence_number=0, turn=1, approvals=(PAY,)))
        else:
            await emit(AgentCompleted(sequence_number=len(past), response=DONE))
        return DONE


async def at_once(*_: object) -> None: ...


async def hang(*_: object) -> AgentExecuteResponse:
    await asyncio.Event().wait()
    return DONE


def limited(*tools: str) -> Caller:
    return Caller("t", frozenset(SCOPES), "key_1", frozenset(tools))


@pytest.mark.parametrize(
    "caller", [limited(), limited("mcp:mcp.example.com", "file_search"), Caller("t", key_id="key_2")]
)
async def test_a_run_has_the_rights_of_the_key_that_submitted_it(make: MakeReplica, caller: Caller) -> None:
    here = make(at_once)
    performed = Performed(here.runs)
    await here.ended((await here.runs.submit(caller, REQUEST)).id)
    assert performed.callers == [caller]
    assert performed.requests == [REQUEST]


async def test_an_answer_to_an_approval_does_not_change_the_rights_of_a_run(make: MakeReplica) -> None:
    here = make(at_once)
    performed = Performed(here.runs, waits=True)
    run = await here.runs.submit(limited("file_search"), REQUEST)
    async for event in here.runs.follow(Caller.of("t"), run.id):
        if isinstance(event, AgentWaiting):
            break
    await here.runs.answer(Caller("t", key_id="key_2"), run.id, ApprovalAnswer(id="call_1", approve=True))
    await here.ended(run.id)
    assert performed.callers == [limited("file_search")] * 2


async def test_a_run_that_an_older_version_stored_is_performed(
    make: MakeReplica, store: AgentRunStore, jobs: JobStore
) -> None:
    here = make(at_once)
    performed = Performed(here.runs)
    stored = SEAL_KEY.sealer("t").seal_request(msgspec.json.encode(REQUEST))
    run = AgentRun(id="run_old", status="queued", title="", created_at=1000)
    await store.submit("t", run, stored)
    await here.runs.resume(Caller.of("t"), run.id)
    await here.ended(run.id)
    assert (performed.callers, performed.requests) == ([Caller.of("t")], [REQUEST])


async def test_an_older_version_reads_the_request_of_a_newer_one(
    make: MakeReplica, store: AgentRunStore
) -> None:
    here = make(at_once)
    here.runs.perform = hang
    run = await here.runs.submit(limited("mcp"), REQUEST)
    claim = await store.claim("t", run.id)
    assert claim is not None
    opened = SEAL_KEY.sealer("t").open_request(claim.request)
    assert opened is not None
    assert msgspec.json.decode(opened, type=AgentExecuteRequest) == REQUEST
