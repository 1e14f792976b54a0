"""Agent runs of the store `none`: there are none, and whoever wants one is told to use a store."""

from collections.abc import Sequence

from antiphon.errors import Unsupported
from antiphon.store.agent_runs import AgentRun, RunClaim, RunEvent, RunStatus
from antiphon.store.agent_scripts import run_not_found
from antiphon.store.base import Fenced


class NoAgentRuns:
    """Keeps nothing, says so."""

    async def submit(self, tenant: str, run: AgentRun, request: bytes, owner: str) -> None:
        """It could not be kept."""
        message = (
            "This server keeps no state, so it runs no agents in the background. "
            "Serve with a store (`--store sqlite:`), or use `/v1/agent/execute`."
        )
        raise Unsupported(message, code="unsupported_parameter")

    async def claim(
        self, tenant: str, run_id: str, owner: str, lease: float | None = None
    ) -> RunClaim | None:
        """There is nothing to claim."""

    async def append(self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> None:
        """Nobody has claimed anything."""
        raise Fenced

    async def finish(
        self, tenant: str, run_id: str, token: int, status: RunStatus, events: Sequence[RunEvent]
    ) -> None:
        """Nobody has claimed anything."""
        raise Fenced

    async def holds(self, tenant: str, run_id: str, token: int) -> bool:
        """Nobody has claimed anything."""
        return False

    async def run(self, tenant: str, run_id: str) -> AgentRun:
        """Nothing is found."""
        raise run_not_found(run_id)

    async def events(self, tenant: str, run_id: str, after: int = -1) -> tuple[Sequence[RunEvent], bool]:
        """Nothing is found."""
        raise run_not_found(run_id)

    async def list_runs(self, tenant: str, *, limit: int, after: str | None = None) -> Sequence[AgentRun]:
        """There are none."""
        return ()

    async def delete(self, tenant: str, run_id: str) -> None:
        """Nothing is found."""
        raise run_not_found(run_id)
