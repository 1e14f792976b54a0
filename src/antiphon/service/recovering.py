"""Tool calls that the model wrote as text, on their way to the machine (docs/text-calls.md)."""

from collections.abc import Callable, Sequence

from antiphon.service.routing.router import Route
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import TurnRequest
from antiphon.turn.text_calls.dialects import dialects_named
from antiphon.turn.text_calls.recovery import CallRecovery

Hear = Callable[[Sequence[Chunk]], Sequence[Chunk]]
"""Of what was heard, what there is to tell now."""


def listener(turn: TurnRequest, route: Route) -> Hear:
    """How a turn is heard. Text is text where no tool may be called, and where the route says so."""
    dialects = dialects_named(route.text_calls)
    if not turn.tools or not dialects:
        return as_it_is
    tools = {tool.name: tool.parameters for tool in turn.tools}
    return CallRecovery(dialects, tools).feed


def as_it_is(heard: Sequence[Chunk]) -> Sequence[Chunk]:
    """Text is text."""
    return heard
