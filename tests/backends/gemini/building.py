"""What the tests of the request share: a create body in, a payload out."""

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
"""Thinks with a budget, and signs nothing that must come back."""
NEW = "gemini-3-flash-preview"
"""Thinks in levels, and wants its signatures back."""
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


def build(model: str = OLD, *, thoughts: dict[int, OpenedReasoning] | None = None, **params: Any) -> Payload:
    """The payload of a create body; `thoughts` are put among the items, each at its place."""
    request = create_from(**{"model": "m", "input": "hi", **params})
    items: list[Item] = list(request.items)
    for place, thought in (thoughts or {}).items():
        items.insert(place, thought)
    return build_payload(build_turn(request, items, model=model), ENDPOINT)


def contents(
    *items: Any, model: str = OLD, thoughts: dict[int, OpenedReasoning] | None = None
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Role and parts of every content."""
    payload = build(model, input=list(items), thoughts=thoughts)
    return [(content["role"], content["parts"]) for content in payload.body["contents"]]


def config(payload: Payload) -> dict[str, Any]:
    return payload.body.get("generationConfig", {})


def text(words: str) -> dict[str, Any]:
    return {"text": words}


def thought(*marks: dict[str, Any], origin: str = ORIGIN) -> OpenedReasoning:
    """Reasoning with marks, as the model's view has it."""
    return OpenedReasoning(summary=[], marks=tuple(ProviderState(origin, mark) for mark in marks))


def refused(model: str = OLD, **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        build(model, **params)
    return caught.value
