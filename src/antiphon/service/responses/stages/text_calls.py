"""Tool calls that the model wrote as text become calls (docs/reference/text-calls.md)."""

from collections.abc import Sequence

from antiphon.service.responses.stages.base import PassingStage
from antiphon.service.routing.router import Route
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import TurnRequest
from antiphon.turn.text_calls.dialects import dialects_named
from antiphon.turn.text_calls.recovery import CallRecovery


class TextCallStage(PassingStage):
    """Finds the calls in the text of one turn."""

    def __init__(self, recovery: CallRecovery) -> None:
        self._recovery = recovery

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Text passes on as soon as it cannot be part of a call."""
        return self._recovery.feed(chunks)


def text_call_stage(turn: TurnRequest, route: Route) -> TextCallStage | None:
    """None if no tool may be called, or the route does not look for calls in the text."""
    dialects = dialects_named(route.text_calls)
    if not turn.tools or not dialects:
        return None
    return TextCallStage(CallRecovery(dialects, {tool.name: tool.parameters for tool in turn.tools}))
