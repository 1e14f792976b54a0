"""Tool calls that the model wrote as text, on their way to the machine (docs/text-calls.md)."""

from collections.abc import Callable, Sequence

from antiphon.protocol.content import JsonObject
from antiphon.protocol.ids import Clock
from antiphon.service.router import Route
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import TurnRequest
from antiphon.turn.text_calls.dialects import dialects_named
from antiphon.turn.text_calls.recovery import CallRecovery

QUIET = 5.0
"""Seconds for which text is held back without a sign of life to the client."""

_FREE_TEXT: JsonObject = {"type": "object", "properties": {"input": {"type": "string"}}}
"""How a custom tool is shown to a model that knows functions only."""


Hear = Callable[[Sequence[Chunk]], Sequence[Chunk] | None]
"""Of what was heard, what there is to tell. An empty batch is a sign of life; None: nothing is to be done."""


class Listener:
    """Hears the batches of one turn, and finds the calls in them."""

    def __init__(self, recovery: CallRecovery, clock: Clock) -> None:
        self._recovery = recovery
        self._clock = clock
        self._silent_since: float | None = None

    def hear(self, heard: Sequence[Chunk]) -> Sequence[Chunk] | None:
        """Text that is held back for long must not look like a dead line."""
        chunks = self._recovery.feed(heard)
        if chunks or not heard:
            self._silent_since = None
            return chunks
        now = self._clock()
        if self._silent_since is not None and now - self._silent_since < QUIET:
            return None
        began, self._silent_since = self._silent_since, now
        return None if began is None else chunks


def listener(turn: TurnRequest, route: Route, clock: Clock) -> Hear:
    """How a turn is heard. Text is text where no tool may be called, and where the route says so."""
    dialects = dialects_named(route.text_calls)
    if not turn.tools or not dialects:
        return _as_it_is
    tools = {tool.name: _FREE_TEXT if tool.kind == "custom" else tool.parameters for tool in turn.tools}
    return Listener(CallRecovery(dialects, tools), clock).hear


def _as_it_is(heard: Sequence[Chunk]) -> Sequence[Chunk]:
    return heard
