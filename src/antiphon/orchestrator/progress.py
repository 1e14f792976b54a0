"""How a run proceeds: every event is told, and then it counts."""

from collections.abc import Awaitable, Callable, Iterable

from antiphon.orchestrator.events import AgentEvent, AgentWarned
from antiphon.orchestrator.run_state import RunState

Tell = Callable[[AgentEvent], Awaitable[None]]
"""Takes an event. The next thing is done when it returns: durable runs store the event there."""


class Progress:
    """Tells events in order and folds them."""

    def __init__(self, past: Iterable[AgentEvent], tell: Tell | None) -> None:
        self.state = RunState(past)
        self._tell = tell

    @property
    def number(self) -> int:
        """The number of the next event."""
        return self.state.next_number

    async def add(self, event: AgentEvent) -> None:
        """Tell an event that has the next number."""
        if self._tell is not None:
            await self._tell(event)
        self.state.apply(event)

    async def warn(self, message: str) -> None:
        """Warn, unless the same was said before: a run that goes on says nothing twice."""
        if message not in self.state.warnings:
            await self.add(AgentWarned(sequence_number=self.number, message=message))
