"""The chunks of a turn, with the tool calls that the model wrote as text (docs/text-calls.md)."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from antiphon.backends.base import PreparedTurn
from antiphon.protocol.content import JsonObject
from antiphon.protocol.ids import Clock
from antiphon.service.router import Route
from antiphon.turn.chunks import Chunk
from antiphon.turn.context import TurnRequest
from antiphon.turn.text_calls.dialects import dialects_named
from antiphon.turn.text_calls.recovery import CallRecovery

_FREE_TEXT: JsonObject = {"type": "object", "properties": {"input": {"type": "string"}}}
"""How a custom tool is shown to a model that knows functions only."""

QUIET = 5.0
"""Seconds for which text is held back without a sign of life to the client."""


def chunks_of(
    prepared: PreparedTurn, turn: TurnRequest, route: Route, clock: Clock
) -> AsyncGenerator[Sequence[Chunk], None]:
    """Run the turn. Where no tool may be called, text is text."""
    batches = prepared.chunks()
    if not turn.tools or route.text_calls == "off":
        return batches
    tools = {tool.name: _FREE_TEXT if tool.kind == "custom" else tool.parameters for tool in turn.tools}
    return _recovered(batches, CallRecovery(dialects_named(route.text_calls), tools), clock)


async def _recovered(
    batches: AsyncGenerator[Sequence[Chunk], None], recovery: CallRecovery, clock: Clock
) -> AsyncGenerator[Sequence[Chunk], None]:
    told = clock()
    async with aclosing(batches):
        async for heard in batches:
            chunks = recovery.feed(heard) if heard else heard
            if chunks or not heard or clock() - told > QUIET:
                yield chunks
                told = clock()
