"""``POST /v1/responses/compact``: its request and its response."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.definitions import Definition, Definitions
from antiphon.protocol.ids import PREVIOUS_RESPONSE_ID
from antiphon.protocol.items import Compaction, Item, Message
from antiphon.protocol.parse import decode, missing
from antiphon.protocol.parse_items import parse_input
from antiphon.protocol.requests import Id
from antiphon.protocol.response import Usage


class _RawCompact(Struct, frozen=True, kw_only=True):
    """The body as received."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    input: str | list[Any] | None = None
    instructions: str | None = None
    previous_response_id: Id | None = None


class CompactRequest(Struct, frozen=True, kw_only=True):
    """A validated request. Its items follow those of the previous response."""

    model: str
    items: tuple[Item, ...]
    instructions: str | None
    previous_response_id: str | None
    unchecked: tuple[Definition, ...] = ()


class CompactedResponse(Struct, frozen=True, kw_only=True):
    """The compacted conversation: the caller's messages, then one compaction. It starts a new chain."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[Message | Compaction]
    usage: Usage | None


def parse_compact(body: bytes) -> CompactRequest:
    """Parse and check a request. Raises `InvalidRequest` with the parameter's name."""
    if not body:
        raise InvalidRequest("The request body is empty; send a JSON object.", code="invalid_json")
    raw = decode(body, _RawCompact)
    if not raw.input and raw.previous_response_id is None:
        raise missing("input", "Send the items to compact, or a 'previous_response_id'.")
    if raw.previous_response_id is not None:
        PREVIOUS_RESPONSE_ID.check(raw.previous_response_id)
    definitions = Definitions()
    return CompactRequest(
        model=raw.model,
        items=parse_input(raw.input, definitions) if raw.input else (),
        instructions=raw.instructions,
        previous_response_id=raw.previous_response_id,
        unchecked=definitions.unchecked,
    )
