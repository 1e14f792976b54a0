"""The answers of an upstream, with the used fields only. Decoding is the hot path, and every field costs.

There is one flat struct for every kind of event, because unknown kinds are ignored.
"""

from typing import Any

import msgspec
from msgspec import Struct


class DeltaWire(Struct, gc=False):
    """The delta of an event: for a block, or for the message."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: Any = None
    stop_reason: str | None = None
    stop_details: Any = None


class BlockWire(Struct, gc=False):
    """A block: complete in a JSON answer, at its beginning in a stream."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    citations: list[Any] | None = None


class OutputDetailsWire(Struct, gc=False):
    """The output tokens that were used for thinking."""

    thinking_tokens: int | None = None


class UsageWire(Struct, gc=False):
    """The token counts. `input_tokens` excludes tokens that were read from a cache or written to it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: OutputDetailsWire | None = None


class MessageWire(Struct, gc=False):
    """A message: complete, or at its beginning. Or an error in its place."""

    type: str = ""
    content: list[BlockWire] | None = None
    stop_reason: str | None = None
    stop_details: Any = None
    usage: UsageWire | None = None
    error: Any = None


class EventWire(Struct, gc=False):
    """An event of a stream."""

    type: str = ""
    index: int = 0
    delta: DeltaWire | None = None
    content_block: BlockWire | None = None
    message: MessageWire | None = None
    usage: UsageWire | None = None
    error: Any = None


class ModelWire(Struct, gc=False):
    """One model of the list."""

    id: str
    created_at: str | None = None


class ModelsWire(Struct, gc=False):
    """The list of models."""

    data: list[ModelWire] | None = None


decode_event = msgspec.json.Decoder(EventWire, strict=False).decode
decode_message = msgspec.json.Decoder(MessageWire, strict=False).decode
decode_models = msgspec.json.Decoder(ModelsWire, strict=False).decode
