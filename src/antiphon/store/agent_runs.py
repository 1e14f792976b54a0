"""The port of agent runs: the request of an agent in the background, and the log of its events.

The log is authoritative: a process that resumes a run reads it and continues. The store rejects writes with
an older token.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from antiphon.store.base import Job

RunStatus = Literal["queued", "in_progress", "waiting", "completed", "failed", "cancelled"]
UNFINISHED_RUN = frozenset({"queued", "in_progress", "waiting"})


class AgentRun(Struct, frozen=True, kw_only=True):
    """A run as listings show it."""

    id: str
    status: RunStatus
    title: str
    created_at: int
    ended_at: int | None = None
    attempts: int = 0
    expires_at: int | None = None


class RunEvent(Struct, frozen=True):
    """One event of the log, as JSON."""

    number: int
    data: bytes


class RunClaim(Struct, frozen=True, kw_only=True):
    """The right to work on an unfinished run. `request` is the submitted request."""

    token: int
    attempt: int
    run: AgentRun
    request: bytes
    events: Sequence[RunEvent]


class AgentRunStore(Protocol):
    """Agent runs. Unknown, foreign, deleted and expired runs raise the same `NotFound`."""

    async def submit(self, tenant: str, run: AgentRun, request: bytes, owner: str | None = None) -> None:
        """Save a queued run and its job, which `owner` has claimed already."""
        ...

    async def claim(self, tenant: str, run_id: str, job: Job | None = None) -> RunClaim | None:
        """Claim an unfinished run, as `BackgroundStore.claim` claims a response; None if it has ended, or
        if it waits and a job is given."""
        ...

    async def append(self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> None:
        """Append to the log, durably; the run is in progress. Raises `Fenced`. Repeating it is harmless."""
        ...

    async def wait(self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent]) -> None:
        """Append to the log; the run is `waiting`, and its job is not due. Raises `Fenced`."""
        ...

    async def answer(
        self, tenant: str, run_id: str, token: int, events: Sequence[RunEvent], *, proceed: bool
    ) -> None:
        """Append to the log of a waiting run; with `proceed` it is queued again. Raises `Fenced`."""
        ...

    async def waiting(self, tenant: str, limit: int) -> Sequence[AgentRun]:
        """The runs that wait, newest first."""
        ...

    async def finish(
        self, tenant: str, run_id: str, token: int, status: RunStatus, events: Sequence[RunEvent]
    ) -> None:
        """Save the last events and the final status together. Raises `Fenced`."""
        ...

    async def run(self, tenant: str, run_id: str) -> AgentRun:
        """Return one run."""
        ...

    async def events(self, tenant: str, run_id: str, after: int = -1) -> tuple[Sequence[RunEvent], bool]:
        """The events with numbers above `after`, and whether the run has ended."""
        ...

    async def list_runs(self, tenant: str, *, limit: int, after: str | None = None) -> Sequence[AgentRun]:
        """Newest first; `after` is an id."""
        ...

    async def delete(self, tenant: str, run_id: str) -> None:
        """Delete a run and its log."""
        ...
