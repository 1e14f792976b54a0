"""Turns built from request params, and readers of their chunks."""

from collections.abc import Sequence
from typing import Any

from antiphon.backends.base import Backend
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Usage
from antiphon.turn.chunks import CallDelta, Chunk, Finished, Heartbeat, TextDelta, UsageReported
from antiphon.turn.context import TurnRequest, build_turn

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
}
ADD: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "description": "Add two numbers",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}
CALLED: list[dict[str, Any]] = [
    {"role": "user", "content": "What is the weather in Paris?"},
    {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Paris"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "21 degrees, sunny"},
]


def turn(**params: Any) -> TurnRequest:
    """The turn for a request with these params."""
    return build_turn(create_from(**{"model": "local", **params}), model="local")


async def run(backend: Backend, **params: Any) -> list[Chunk]:
    """The chunks of a turn, without heartbeats."""
    return [
        chunk
        async for batch in backend.prepare(turn(**params)).chunks()
        for chunk in batch
        if not isinstance(chunk, Heartbeat)
    ]


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def arguments_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.arguments for chunk in chunks if isinstance(chunk, CallDelta))


def usage_of(chunks: Sequence[Chunk]) -> Usage:
    """The last usage report, which counts."""
    return [chunk.usage for chunk in chunks if isinstance(chunk, UsageReported)][-1]


def finish_of(chunks: Sequence[Chunk]) -> str:
    last = chunks[-1]
    assert isinstance(last, Finished)
    return last.reason
