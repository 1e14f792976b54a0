"""Responses with `file_search` on a scripted model: chunks, calls, and what the model has been shown."""

from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.protocol.items import FunctionCallOutput
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Response, Usage
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Finished,
    TextDelta,
    UsageReported,
)
from tests.turn.folding import to_wire
from tests.turn.order import check_order

MakeSearching = Callable[..., tuple[Creator, ScriptedBackend]]

CALLER = Caller.of("t")
TOOL: dict[str, Any] = {"type": "file_search", "vector_store_ids": ["vs_1"]}
LOOK: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
}
USAGE = UsageReported(Usage(3, InputTokensDetails(), 2, OutputTokensDetails(), 5))


def call(*queries: str, index: int = 0, name: str = "file_search") -> list[Chunk]:
    arguments = msgspec.json.encode({"queries": queries}).decode()
    middle = len(arguments) // 2
    return [
        CallStarted(index, f"call_{index}", name),
        CallDelta(index, arguments[:middle]),
        CallDelta(index, arguments[middle:]),
        CallFinished(index),
    ]


SEARCH: list[Chunk] = [*call("why blue"), USAGE, Finished("tool_calls")]
ANSWER: list[Chunk] = [TextDelta("It is blue ["), TextDelta("1]."), USAGE, Finished("stop")]


async def create(creator: Creator, **params: object) -> Response:
    request = create_from(**{"model": "m", "input": "Why is the sky blue?", "tools": [TOOL], **params})
    return await creator.start(request, CALLER).result()


async def stream(creator: Creator, **params: object) -> list[dict[str, Any]]:
    request = create_from(**{"model": "m", "input": "Why?", "stream": True, "tools": [TOOL], **params})
    batches = [batch async for batch in creator.start(request, CALLER).events()]
    events = [to_wire(event) for batch in batches for event in batch]
    check_order(events)
    return events


def outputs(backend: ScriptedBackend, turn: int = -1) -> list[str]:
    """What the model has been shown of its searches."""
    return [str(item.output) for item in backend.turns[turn].items if isinstance(item, FunctionCallOutput)]
