"""Shared by the tests of the request: build a payload from a create body."""

from typing import Any

import pytest

from antiphon.backends.gemini.request import Payload, build_payload
from antiphon.backends.registry import default_endpoint
from antiphon.errors import InvalidRequest
from antiphon.protocol.items import Item
from antiphon.protocol.parse_create import create_from
from antiphon.turn.context import build_turn
from antiphon.turn.provider_state import OpenedReasoning, ProviderState

ENDPOINT = default_endpoint("gemini")
ORIGIN = "gemini@generativelanguage.googleapis.com"
OLD = "gemini-2.5-flash"
"""A model with a thinking budget; its signatures are optional."""
NEW = "gemini-3-flash-preview"
"""A model with thinking levels; it requires its signatures back."""
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
}
CALL: dict[str, Any] = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
USER: dict[str, Any] = {"role": "user", "content": "hi"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "so it is"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def build(model: str = OLD, *, opened: dict[int, OpenedReasoning] | None = None, **params: Any) -> Payload:
    """The payload of a create body; `opened` puts reasoning items at these positions."""
    request = create_from(**{"model": "m", "input": "hi", **params})
    items: list[Item] = list(request.items)
    for place, item in (opened or {}).items():
        items.insert(place, item)
    return build_payload(build_turn(request, items, model=model), ENDPOINT)


def contents(
    *items: Any, model: str = OLD, opened: dict[int, OpenedReasoning] | None = None
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Role and parts of every content."""
    payload = build(model, input=list(items), opened=opened)
    return [(content["role"], content["parts"]) for content in payload.body["contents"]]


def config(payload: Payload) -> dict[str, Any]:
    return payload.body.get("generationConfig", {})


def text(text_value: str) -> dict[str, Any]:
    return {"text": text_value}


def opened_reasoning(*states: dict[str, Any], origin: str = ORIGIN) -> OpenedReasoning:
    """Opened reasoning with provider states."""
    return OpenedReasoning(summary=[], states=tuple(ProviderState(origin, state) for state in states))


def refused(model: str = OLD, **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        build(model, **params)
    return caught.value
