"""The runs of an agent at a server of ours, over HTTP."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from antiphon.cli.agent_doors import ShownRun
from antiphon.cli.agent_task import Task
from antiphon.cli.remote import API_KEY, refusals
from antiphon.errors import BackendBroken
from antiphon.http.target import Deadlines
from antiphon.orchestrator.agent import ModeSummary
from antiphon.orchestrator.casing import event_from_json, from_json
from antiphon.orchestrator.events import END, AgentEvent
from antiphon.orchestrator.http_client import HttpResponsesClient
from antiphon.orchestrator.models import AgentExecuteResponse
from antiphon.orchestrator.run_tree import RunTree
from antiphon.protocol.content import JsonObject
from antiphon.store.agent_runs import AgentRun

T = TypeVar("T")

RUNS = "agent/runs"
_LONG = 30 * 24 * 3600.0
_DEADLINES = Deadlines(first_byte=_LONG, between=_LONG, answer=_LONG, total=_LONG)
"""A turn or a tool may take hours, and nothing is told meanwhile. A person can end the wait at any time."""


class _Runs(Struct, frozen=True):
    data: list[AgentRun]


class _Modes(Struct, frozen=True):
    data: list[ModeSummary]


class _Whole(Struct, frozen=True):
    tree: RunTree
    response: msgspec.Raw = msgspec.Raw(b"null")


class RemoteDoor(HttpResponsesClient):
    """The runs of the tenant whose key is sent."""

    async def submit(self, task: Task) -> AgentRun:
        """Begin a run at the server."""
        sent = {**task.sent, "title": task.title} if task.title else task.sent
        return await self._read("POST", RUNS, AgentRun, sent)

    async def list_runs(self, limit: int) -> Sequence[AgentRun]:
        """The newest runs."""
        return (await self._read("GET", f"{RUNS}?limit={limit}", _Runs)).data

    async def show(self, run_id: str) -> ShownRun:
        """One run."""
        with refusals():
            answer = await self._ask("GET", _path(run_id))
        whole = self._decode(answer, _Whole)
        told = (
            None
            if bytes(whole.response) == b"null"
            else from_json(bytes(whole.response), AgentExecuteResponse)
        )
        return ShownRun(run=self._decode(answer, AgentRun), response=told, tree=whole.tree)

    async def follow(self, run_id: str) -> AsyncGenerator[AgentEvent, None]:
        """What a run has told and tells, until its end."""
        with refusals():
            async with (
                self._opened("GET", f"{_path(run_id)}?stream=true", None) as exchange,
                aclosing(self._events(exchange)) as events,
            ):
                async for told in events:
                    event = event_from_json(msgspec.json.encode(told))
                    yield event
                    if isinstance(event, END):
                        return
        raise BackendBroken(f"{self.name} broke off before the run ended; the run goes on.")

    async def cancel(self, run_id: str) -> AgentRun:
        """Call off a run."""
        return await self._read("POST", f"{_path(run_id)}/cancel", AgentRun)

    async def delete(self, run_id: str) -> None:
        """Forget a run."""
        await self._read("DELETE", _path(run_id), dict)

    async def modes(self) -> Sequence[ModeSummary]:
        """The modes of the server's agent."""
        return (await self._read("GET", "agent/modes", _Modes)).data

    async def _read(self, method: str, path: str, kind: type[T], sent: JsonObject | None = None) -> T:
        with refusals():
            return self._decode(await self._ask(method, path, sent), kind)


def _path(run_id: str) -> str:
    return f"{RUNS}/{quote(run_id, safe='')}"


@asynccontextmanager
async def open_remote_runs(base_url: str) -> AsyncGenerator[RemoteDoor, None]:
    """The runs at this server. It is asked once: a person may ask again."""
    key = os.environ.get(API_KEY)
    async with RemoteDoor(base_url, api_key=key, retries=0, deadlines=_DEADLINES) as door:
        yield door
