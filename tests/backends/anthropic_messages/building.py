"""What the tests of the request share: a create body in, a payload out."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.backends.anthropic_messages.request import Payload, build_payload
from antiphon.backends.registry import default_endpoint
from antiphon.errors import InvalidRequest
from antiphon.protocol.content import ReasoningText
from antiphon.protocol.items import Item
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.requests import Thinking
from antiphon.turn.context import build_turn
from antiphon.turn.provider_state import OpenedReasoning, ProviderState

ENDPOINT = default_endpoint("anthropic")
ORIGIN = "anthropic_messages@api.anthropic.com"
OLD = "claude-sonnet-4-5"
"""Thinks with a budget."""
NEW = "claude-opus-5"
"""Thinks by itself."""
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
}
CALL: dict[str, Any] = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
USER: dict[str, Any] = {"role": "user", "content": "hi"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def build(
    model: str = OLD,
    *,
    thoughts: dict[int, OpenedReasoning] | None = None,
    thinking: Thinking | None = None,
    **params: Any,
) -> Payload:
    """The payload of a create body; `thoughts` are put among the items, each at its place."""
    request = replace(create_from(**{"model": "m", "input": "hi", **params}), thinking=thinking)
    items: list[Item] = list(request.items)
    for place, thought in (thoughts or {}).items():
        items.insert(place, thought)
    return build_payload(build_turn(request, items, model=model), ENDPOINT)


def messages(*items: Any, model: str = OLD, **params: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    """Role and blocks of every message, without marks of the cache."""
    return plain(build(model, input=list(items), **params))


def plain(payload: Payload) -> list[tuple[str, list[dict[str, Any]]]]:
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for message in payload.body["messages"]:
        blocks = [
            {key: block[key] for key in block if key != "cache_control"} for block in message["content"]
        ]
        found.append((message["role"], blocks))
    return found


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def thought(words: str, *marks: dict[str, Any], origin: str = ORIGIN) -> OpenedReasoning:
    """Reasoning with marks, as the model's view has it."""
    content = [ReasoningText(words)] if words else []
    return OpenedReasoning(
        summary=[], content=content, marks=tuple(ProviderState(origin, mark) for mark in marks)
    )


def refused(model: str = OLD, **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        build(model, **params)
    return caught.value
