"""A run as it is told to clients: over HTTP and by the command line alike."""

import msgspec
from msgspec import Raw, Struct

from antiphon.orchestrator.casing import Case, to_json
from antiphon.orchestrator.models import AgentExecuteResponse
from antiphon.orchestrator.run_tree import RunTree
from antiphon.store.agent_runs import AgentRun, RunStatus


class RunObject(Struct, frozen=True, kw_only=True):
    """A run as it is listed."""

    id: str
    object: str = "agent.run"
    status: RunStatus
    title: str
    created_at: int
    ended_at: int | None
    expires_at: int | None
    attempts: int


class _WholeRun(RunObject, frozen=True, kw_only=True):
    response: Raw | None
    tree: RunTree


def run_object(run: AgentRun) -> RunObject:
    """One run."""
    return RunObject(**msgspec.structs.asdict(run))


def whole_run(run: AgentRun, response: AgentExecuteResponse | None, tree: RunTree, case: Case) -> bytes:
    """A run with its answer, if it has ended, and its tree, as JSON. The case is that of the answer."""
    whole = _WholeRun(
        **msgspec.structs.asdict(run),
        response=None if response is None else Raw(to_json(response, case)),
        tree=tree,
    )
    return msgspec.json.encode(whole)
