"""The answers of an upstream, with the used fields only. Decoding is the hot path, and every field costs.

Liberal: null means absent, unknown fields are ignored. Items and responses are decoded when they are needed;
most events with a response only repeat the request.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.protocol.content import JsonObject

NOTHING = Raw(b"{}")
"""The value of absent members."""


class AlternativeWire(Struct, gc=False):
    """One alternative of a token."""

    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None


class TokenWire(Struct, gc=False):
    """A token's probability."""

    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None
    top_logprobs: list[AlternativeWire] | None = None


class PartWire(Struct, gc=False):
    """A part of a message, or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: list[JsonObject] | None = None
    logprobs: list[TokenWire] | None = None


class ItemWire(Struct, gc=False):
    """An item: the common members, and those of messages, reasoning and calls. Other items have separate
    types."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    content: list[PartWire] | str | None = None
    phase: str | None = None
    summary: list[PartWire] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Any = None
    input: str | None = None
    execution: str | None = None
    tools: list[Any] | None = None


class EventWire(Struct, gc=False):
    """One event; the fields of a text delta come first, in the order in which they come."""

    type: str = ""
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    delta: Any = None
    logprobs: list[TokenWire] | None = None
    summary_index: int | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: Any = None
    input: str | None = None
    annotation: JsonObject | None = None
    part: PartWire | None = None
    item: Raw = NOTHING
    response: Raw = NOTHING
    error: Any = None
    message: Any = None
    code: Any = None
    param: Any = None


class InputDetailsWire(Struct, gc=False):
    """Where the input tokens came from."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetailsWire(Struct, gc=False):
    """The output tokens that were used for reasoning."""

    reasoning_tokens: int | None = None


class UsageWire(Struct, gc=False):
    """The token counts."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: InputDetailsWire | None = None
    output_tokens_details: OutputDetailsWire | None = None


class IncompleteWire(Struct, gc=False):
    """Why it stopped early."""

    reason: str | None = None


class ResponseWire(Struct, gc=False):
    """A response at its end."""

    status: str | None = None
    output: list[Raw] | None = None
    usage: UsageWire | None = None
    error: Any = None
    incomplete_details: IncompleteWire | None = None


class ModelWire(Struct, gc=False):
    """One model of the list."""

    id: str
    created: int | None = None
    owned_by: str | None = None


class ModelsWire(Struct, gc=False):
    """The list of models."""

    data: list[ModelWire] | None = None


decode_event = msgspec.json.Decoder(EventWire).decode
decode_item = msgspec.json.Decoder(ItemWire).decode
decode_response = msgspec.json.Decoder(ResponseWire).decode
decode_models = msgspec.json.Decoder(ModelsWire, strict=False).decode
