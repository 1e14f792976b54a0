"""Agent runs on a SQL database: every call is one script, run as one transaction."""

from collections.abc import Sequence

from antiphon.protocol.ids import Clock
from antiphon.store import agent_scripts, upkeep
from antiphon.store.agent_runs import AgentRun, RunClaim, RunEvent, RunStatus
from antiphon.store.database import Database


class SqlAgentRuns:
    """Keeps agent runs in the database of a `SqlStore`, which also sees to their owners and their expiry.

    With a `limit`, only so many ended runs are kept: the oldest are forgotten.
    """

    def __init__(self, database: Database, clock: Clock, *, limit: int | None = None) -> None:
        self._db = database
        self._clock = clock
        self._limit = limit

    def _now(self) -> int:
        return int(self._clock())

    async def submit(self, tenant: str, run: AgentRun, request: bytes, owner: str) -> None:
        """Keep a queued run. Submitting it again changes nothing."""
        await self._db.write(agent_scripts.submit(tenant, run, request, owner))

    async def claim(
        self, tenant: str, run_id: str, owner: str, lease: float | None = None
    ) -> RunClaim | None:
        """Take an unfinished run."""
        return await self._db.write(agent_scripts.claim(tenant, run_id, owner, lease, self._now()))

    async def append(self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> None:
        """Add to the log, durably."""
        await self._db.write(agent_scripts.append(tenant, run_id, token, events))

    async def finish(
        self, tenant: str, run_id: str, token: int, status: RunStatus, events: Sequence[RunEvent]
    ) -> None:
        """The last events and the final status, at once."""
        await self._db.write(agent_scripts.finish(tenant, run_id, token, status, events, now=self._now()))
        if self._limit is not None:
            await self._db.write(upkeep.trim_agent_runs(self._limit), durable=False)

    async def holds(self, tenant: str, run_id: str, token: int) -> bool:
        """Whether the holder of this token may go on."""
        return await self._db.read(agent_scripts.holds(tenant, run_id, token))

    async def run(self, tenant: str, run_id: str) -> AgentRun:
        """One run."""
        return await self._db.read(agent_scripts.find(tenant, run_id, self._now()))

    async def events(self, tenant: str, run_id: str, after: int = -1) -> tuple[Sequence[RunEvent], bool]:
        """What the log holds beyond an event, and whether the run has ended."""
        return await self._db.read(agent_scripts.events(tenant, run_id, after, self._now()))

    async def list_runs(self, tenant: str, *, limit: int, after: str | None = None) -> Sequence[AgentRun]:
        """Runs, newest first."""
        return await self._db.read(agent_scripts.newest(tenant, limit, after, self._now()))

    async def delete(self, tenant: str, run_id: str) -> None:
        """Forget a run and its log."""
        await self._db.write(agent_scripts.delete(tenant, run_id, self._now()))
