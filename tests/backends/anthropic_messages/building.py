"""Shared by the tests of the request: build a payload from a create body."""

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
"""A model with a thinking budget."""
NEW = "claude-opus-5"
"""A model with adaptive thinking."""
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
    opened: dict[int, OpenedReasoning] | None = None,
    thinking: Thinking | None = None,
    **params: Any,
) -> Payload:
    """The payload of a create body; `opened` puts reasoning items at these positions."""
    request = replace(create_from(**{"model": "m", "input": "hi", **params}), thinking=thinking)
    items: list[Item] = list(request.items)
    for position, item in (opened or {}).items():
        items.insert(position, item)
    return build_payload(build_turn(request, items, model=model), ENDPOINT)


def messages(*items: Any, model: str = OLD, **params: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    """Role and blocks of every message, without cache breakpoints."""
    return plain(build(model, input=list(items), **params))


def plain(payload: Payload) -> list[tuple[str, list[dict[str, Any]]]]:
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for message in payload.body["messages"]:
        blocks = [
            {key: block[key] for key in block if key != "cache_control"} for block in message["content"]
        ]
        found.append((message["role"], blocks))
    return found


def text(text_value: str) -> dict[str, Any]:
    return {"type": "text", "text": text_value}


def opened_reasoning(text_value: str, *states: dict[str, Any], origin: str = ORIGIN) -> OpenedReasoning:
    """Opened reasoning with provider states."""
    content = [ReasoningText(text_value)] if text_value else []
    return OpenedReasoning(
        summary=[], content=content, states=tuple(ProviderState(origin, state) for state in states)
    )


def refused(model: str = OLD, **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        build(model, **params)
    return caught.value
