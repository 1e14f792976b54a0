"""Clients of agent runs: the runs in a store, or those of a server over HTTP."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from antiphon.caller import Caller
from antiphon.cli.agent.inputs import Task
from antiphon.cli.clients import server_key, translated_errors
from antiphon.errors import BackendBroken
from antiphon.http.target import Deadlines
from antiphon.orchestrator.agent import ModeSummary
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.orchestrator.casing import event_from_json, from_json
from antiphon.orchestrator.events import END, AgentEvent
from antiphon.orchestrator.http_client import HttpResponsesClient
from antiphon.orchestrator.models import AgentExecuteResponse, ApprovalAnswer, ApprovalRequest
from antiphon.orchestrator.run_tree import RunTree, response_of, tree_of
from antiphon.protocol.content import JsonObject
from antiphon.settings import Settings
from antiphon.store.agent_runs import AgentRun
from antiphon.wiring.application import open_agents


class RunDetails(Struct, frozen=True, kw_only=True):
    """A run, its response once it has ended, and its turns and tool calls so far."""

    run: AgentRun
    response: AgentExecuteResponse | None
    tree: RunTree


class RunApproval(Struct, frozen=True):
    """A request of a run that waits for a person."""

    run_id: str
    request: ApprovalRequest


class RunClient(Protocol):
    """Operations on runs. An unknown run is a `RequestError`."""

    async def submit(self, task: Task) -> AgentRun: ...

    async def list_runs(self, limit: int) -> Sequence[AgentRun]:
        """The newest runs first."""
        ...

    async def show(self, run_id: str) -> RunDetails: ...

    @property
    def option(self) -> str:
        """The option, after a space, by which another command finds these runs."""
        ...

    def follow(self, run_id: str) -> AsyncGenerator[AgentEvent, None]:
        """All events of a run, from the first until its end."""
        ...

    async def cancel(self, run_id: str) -> AgentRun: ...

    async def answer(self, run_id: str, answer: ApprovalAnswer) -> AgentRun:
        """Answer an approval request of a run."""
        ...

    async def approvals(self) -> Sequence[RunApproval]:
        """The requests of runs that wait, newest first."""
        ...

    async def delete(self, run_id: str) -> None: ...


class StoredRuns:
    """The runs of a tenant in a store. This process executes the runs that it submits or resumes."""

    option = ""

    def __init__(self, runs: AgentRuns, tenant: str) -> None:
        self._runs = runs
        self._caller = Caller.of(tenant)

    async def submit(self, task: Task) -> AgentRun:
        return await self._runs.submit(self._caller, task.request, task.title)

    async def resume(self, run_id: str) -> AgentRun:
        """Continue an unfinished run in this process; an ended one stays as it is."""
        return await self._runs.resume(self._caller, run_id)

    async def list_runs(self, limit: int) -> Sequence[AgentRun]:
        return await self._runs.list_runs(self._caller, limit=limit)

    async def show(self, run_id: str) -> RunDetails:
        record = await self._runs.show(self._caller, run_id)
        return RunDetails(run=record.run, response=response_of(record.events), tree=tree_of(record.events))

    async def follow(self, run_id: str) -> AsyncGenerator[AgentEvent, None]:
        async with aclosing(self._runs.follow(self._caller, run_id)) as events:
            async for event in events:
                if event is not None:
                    yield event

    async def answer(self, run_id: str, answer: ApprovalAnswer) -> AgentRun:
        return await self._runs.answer(self._caller, run_id, answer, works_here=False)

    async def approvals(self) -> Sequence[RunApproval]:
        waiting = await self._runs.waiting(self._caller, MAX_APPROVALS)
        return [RunApproval(each.run.id, request) for each in waiting for request in each.approvals]

    async def cancel(self, run_id: str) -> AgentRun:
        return await self._runs.cancel(self._caller, run_id)

    async def delete(self, run_id: str) -> None:
        await self._runs.delete(self._caller, run_id)


@asynccontextmanager
async def open_stored_runs(settings: Settings, tenant: str) -> AsyncGenerator[StoredRuns, None]:
    """A client of the runs in the store of these settings."""
    async with open_agents(settings) as served:
        assert served.agents is not None, "that is what was opened"
        yield StoredRuns(served.agents.runs, tenant)


T = TypeVar("T")

RUNS = "agent/runs"
MAX_APPROVALS = 100
_MONTH_SECONDS = 30 * 24 * 3600.0
_DEADLINES = Deadlines(
    first_byte=_MONTH_SECONDS, between=_MONTH_SECONDS, answer=_MONTH_SECONDS, total=_MONTH_SECONDS
)
"""Very long: a turn or a tool may take hours without an event. The user can interrupt the wait."""


class _Runs(Struct, frozen=True):
    data: list[AgentRun]


class _Approval(Struct, frozen=True):
    id: str
    name: str
    arguments: str
    run_id: str | None = None
    server_label: str | None = None


class _Approvals(Struct, frozen=True):
    data: list[_Approval]


class _Modes(Struct, frozen=True):
    data: list[ModeSummary]


class _Details(Struct, frozen=True):
    tree: RunTree
    response: msgspec.Raw = msgspec.Raw(b"null")


class ServerRuns(HttpResponsesClient):
    """The runs at a server, of the tenant whose key is sent."""

    @property
    def option(self) -> str:
        """The option, after a space, by which another command finds these runs."""
        return f" --base-url {self.name}"

    async def submit(self, task: Task) -> AgentRun:
        body = {**task.body, "title": task.title} if task.title else task.body
        return await self._read("POST", RUNS, AgentRun, body)

    async def list_runs(self, limit: int) -> Sequence[AgentRun]:
        return (await self._read("GET", f"{RUNS}?limit={limit}", _Runs)).data

    async def show(self, run_id: str) -> RunDetails:
        with translated_errors():
            answer = await self._ask("GET", _path(run_id))
        details = self._decode(answer, _Details)
        response = (
            None
            if bytes(details.response) == b"null"
            else from_json(bytes(details.response), AgentExecuteResponse)
        )
        return RunDetails(run=self._decode(answer, AgentRun), response=response, tree=details.tree)

    async def follow(self, run_id: str) -> AsyncGenerator[AgentEvent, None]:
        with translated_errors():
            async with (
                self._opened("GET", f"{_path(run_id)}?stream=true", None) as exchange,
                aclosing(self._events(exchange)) as events,
            ):
                async for payload in events:
                    event = event_from_json(msgspec.json.encode(payload))
                    yield event
                    if isinstance(event, END):
                        return
        raise BackendBroken(f"{self.name} closed the stream before the run ended. The run continues there.")

    async def answer(self, run_id: str, answer: ApprovalAnswer) -> AgentRun:
        body = {"approval_request_id": answer.id, "approve": answer.approve, "reason": answer.reason}
        return await self._read("POST", f"{_path(run_id)}/approvals", AgentRun, body)

    async def approvals(self) -> Sequence[RunApproval]:
        found = (await self._read("GET", f"approvals?limit={MAX_APPROVALS}", _Approvals)).data
        return [
            RunApproval(
                each.run_id,
                ApprovalRequest(
                    id=each.id,
                    kind="mcp" if each.server_label else "agent",
                    name=each.name,
                    arguments=each.arguments,
                    server_label=each.server_label,
                ),
            )
            for each in found
            if each.run_id is not None
        ]

    async def cancel(self, run_id: str) -> AgentRun:
        return await self._read("POST", f"{_path(run_id)}/cancel", AgentRun)

    async def delete(self, run_id: str) -> None:
        await self._read("DELETE", _path(run_id), dict)

    async def modes(self) -> Sequence[ModeSummary]:
        return (await self._read("GET", "agent/modes", _Modes)).data

    async def _read(self, method: str, path: str, kind: type[T], body: JsonObject | None = None) -> T:
        with translated_errors():
            return self._decode(await self._ask(method, path, body), kind)


def _path(run_id: str) -> str:
    return f"{RUNS}/{quote(run_id, safe='')}"


@asynccontextmanager
async def open_server_runs(base_url: str) -> AsyncGenerator[ServerRuns, None]:
    """A client of the runs at this server. Failed calls are not retried: the user can repeat the command."""
    async with ServerRuns(base_url, api_key=server_key(), retries=0, deadlines=_DEADLINES) as client:
        yield client
