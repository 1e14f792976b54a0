"""The journal of a run: it stores the agent's events, then wakes the followers."""

from collections.abc import Sequence

import msgspec

from antiphon.errors import AntiphonError, StoreFull, StoreUnavailable
from antiphon.orchestrator.events import (
    END,
    AgentCancelled,
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentWaiting,
)
from antiphon.orchestrator.models import AgentExecuteResponse
from antiphon.orchestrator.run_state import RunState
from antiphon.store.agent_runs import AgentRunStore, RunClaim, RunEvent, RunStatus
from antiphon.store.retry import retry_while_unavailable
from antiphon.store.signals import Signals

_STORE_ERRORS = frozenset({StoreUnavailable.code, StoreFull.code})
"""Codes of errors of the store. They do not fail the run: it is tried again."""

_decoder = msgspec.json.Decoder[AgentEvent](AgentEvent)


def read_journal(rows: Sequence[RunEvent]) -> list[AgentEvent]:
    """The events of a log."""
    return [_decoder.decode(row.data) for row in rows]


def journal_row(event: AgentEvent) -> RunEvent:
    """An event in its stored form."""
    return RunEvent(event.sequence_number, msgspec.json.encode(event))


class Journal:
    """Writes the log of one claimed run. `execute` receives its method `tell`."""

    def __init__(self, store: AgentRunStore, signals: Signals, tenant: str, claim: RunClaim) -> None:
        self._store = store
        self._signals = signals
        self._tenant = tenant
        self._id = claim.run.id
        self._token = claim.token
        self._state = RunState(read_journal(claim.events))
        self._ended = False
        self._waits = False

    @property
    def ended(self) -> bool:
        """Whether the terminal event is stored."""
        return self._ended

    @property
    def waits(self) -> bool:
        """Whether the run waits for a person."""
        return self._waits

    async def tell(self, event: AgentEvent) -> None:
        """Store an event durably; a terminal one together with the status of the run. Raises `Fenced`.

        It waits while the database is unavailable, because the result of a tool must not get lost.
        """
        if isinstance(event, AgentFailed) and event.code in _STORE_ERRORS:
            raise StoreUnavailable(event.response.error_message)
        rows = [journal_row(event)]
        if isinstance(event, END):
            status = _status(event)
            await retry_while_unavailable(
                f"the agent run {self._id}",
                lambda: self._store.finish(self._tenant, self._id, self._token, status, rows),
            )
            self._ended = True
        else:
            self._waits = isinstance(event, AgentWaiting)
            store = self._store.wait if self._waits else self._store.append
            await retry_while_unavailable(
                f"the agent run {self._id}",
                lambda: store(self._tenant, self._id, self._token, rows),
            )
        self._state.apply(event)
        self._signals.publish(f"events:{self._id}")

    async def fail(self, error: AntiphonError) -> None:
        """End the run with an error that was raised outside the agent."""
        started = self._state.started
        response = AgentExecuteResponse(
            kind="error",
            mode=started.mode if started else None,
            error_code=error.kind,
            error_message=error.message,
        )
        failed = AgentFailed(
            sequence_number=self._state.next_number,
            response=self._state.finished(response),
            code=error.code or "",
        )
        await self.tell(failed)


def _status(end: AgentCompleted | AgentFailed | AgentCancelled) -> RunStatus:
    match end:
        case AgentCompleted():
            return "completed"
        case AgentFailed():
            return "failed"
        case AgentCancelled():
            return "cancelled"
