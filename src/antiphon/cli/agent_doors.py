"""Where the runs of an agent are: in a store, or at a server (`antiphon.cli.remote_runs`)."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from msgspec import Struct

from antiphon.cli.agent_task import Task
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.orchestrator.events import AgentEvent
from antiphon.orchestrator.models import AgentExecuteResponse
from antiphon.orchestrator.run_tree import RunTree, response_of, tree_of
from antiphon.settings import Settings
from antiphon.store.agent_runs import AgentRun
from antiphon.wiring.application import open_agents


class ShownRun(Struct, frozen=True, kw_only=True):
    """A run with what became of it so far."""

    run: AgentRun
    response: AgentExecuteResponse | None
    tree: RunTree


class RunDoor(Protocol):
    """What can be done with runs. Unknown ones are a `RequestError`."""

    async def submit(self, task: Task) -> AgentRun:
        """Begin a run."""
        ...

    async def list_runs(self, limit: int) -> Sequence[AgentRun]:
        """The newest runs."""
        ...

    async def show(self, run_id: str) -> ShownRun:
        """One run."""
        ...

    def follow(self, run_id: str) -> AsyncGenerator[AgentEvent, None]:
        """What a run has told and tells, until its end."""
        ...

    async def cancel(self, run_id: str) -> AgentRun:
        """Call off a run."""
        ...

    async def delete(self, run_id: str) -> None:
        """Forget a run."""
        ...


class LocalDoor:
    """The runs of a tenant in a store. Those that are begun or resumed here are made in this process."""

    def __init__(self, runs: AgentRuns, tenant: str) -> None:
        self._runs = runs
        self._tenant = tenant

    async def submit(self, task: Task) -> AgentRun:
        """Begin a run in this process."""
        return await self._runs.submit(self._tenant, task.request, task.title)

    async def resume(self, run_id: str) -> AgentRun:
        """Go on with a run that was left unfinished; one that has ended stays as it is."""
        return await self._runs.resume(self._tenant, run_id)

    async def list_runs(self, limit: int) -> Sequence[AgentRun]:
        """The newest runs."""
        return await self._runs.list_runs(self._tenant, limit=limit)

    async def show(self, run_id: str) -> ShownRun:
        """One run."""
        record = await self._runs.show(self._tenant, run_id)
        return ShownRun(run=record.run, response=response_of(record.events), tree=tree_of(record.events))

    async def follow(self, run_id: str) -> AsyncGenerator[AgentEvent, None]:
        """What a run has told and tells, wherever it is made."""
        async with aclosing(self._runs.follow(self._tenant, run_id)) as events:
            async for event in events:
                if event is not None:
                    yield event

    async def cancel(self, run_id: str) -> AgentRun:
        """Call off a run, wherever it is made."""
        return await self._runs.cancel(self._tenant, run_id)

    async def delete(self, run_id: str) -> None:
        """Forget a run."""
        await self._runs.delete(self._tenant, run_id)


@asynccontextmanager
async def open_local(settings: Settings, tenant: str) -> AsyncGenerator[LocalDoor, None]:
    """The runs in the store of the settings."""
    async with open_agents(settings) as served:
        assert served.agents is not None, "that is what was opened"
        yield LocalDoor(served.agents.runs, tenant)
