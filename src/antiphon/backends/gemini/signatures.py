"""Thought signatures: encrypted thoughts of the model, attached to the parts of its answer.

A signature belongs to one part and must be sent back with it. It is provider state
(`turn/provider_state.py`) in a reasoning item, so the state records the position of its part:

- `call`: the call after the reasoning;
- `next`: these characters of the message after it;
- `said`: these characters of the message before it, because a stream signs a text after it was emitted;
- `thought`: a thought, which the state contains.
"""

from collections.abc import Iterable
from typing import Literal
from urllib.parse import urlsplit

from antiphon.backends.registry import Endpoint
from antiphon.protocol.content import JsonObject
from antiphon.turn.provider_state import ProviderState

NO_SIGNATURE = "skip_thought_signature_validator"
"""The documented signature for a call whose signature is unknown."""


def origin_of(endpoint: Endpoint) -> str:
    """The origin of provider state. The Gemini API and Vertex AI reject each other's signatures."""
    return f"gemini@{urlsplit(endpoint.base_url).netloc.lower()}"


def call_state(origin: str, signature: str) -> ProviderState:
    """The state of the next call."""
    return ProviderState(origin, {"on": "call", "signature": signature})


def thought_state(origin: str, signature: str, text: str) -> ProviderState:
    return ProviderState(origin, {"on": "thought", "signature": signature, "text": text})


def text_state(
    origin: str, signature: str, on: Literal["next", "said"], start: int = 0, length: int = 0
) -> ProviderState:
    """The state of a piece of a message."""
    return ProviderState(origin, {"on": on, "signature": signature, "start": start, "length": length})


def signed(part: JsonObject, signature: str | None) -> JsonObject:
    """The part with its signature, if it has one."""
    return {**part, "thoughtSignature": signature} if signature else part


def signed_text(text: str, states: Iterable[JsonObject]) -> list[JsonObject] | None:
    """The original parts of a text with their signatures; None if the text has changed."""
    parts: list[JsonObject] = []
    at = 0
    for state in states:
        start: int = state["start"]
        end = start + state["length"]
        if start < at or end > len(text):
            return None
        if start > at:
            parts.append({"text": text[at:start]})
        parts.append(signed({"text": text[start:end]}, state["signature"]))
        at = end
    if at < len(text):
        parts.append({"text": text[at:]})
    return parts
