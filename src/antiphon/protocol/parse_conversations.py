"""The bodies of the conversation routes: from bytes to checked items and metadata."""

from typing import Any

from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.bounds import check_length
from antiphon.protocol.content import Metadata
from antiphon.protocol.definitions import Definition, Definitions
from antiphon.protocol.items import Item
from antiphon.protocol.parse import check_metadata, decode
from antiphon.protocol.parse_items import check_members, parse_item
from antiphon.protocol.stored_items import item_type

MAX_ITEMS = 1_000
_NOT_STORED = {
    "item_reference": "A conversation contains complete items: send the item itself.",
    "compaction_trigger": "A trigger belongs into the 'input' of a response.",
}


class NewItems(Struct, frozen=True):
    """Items of a conversation."""

    items: tuple[Item, ...]
    unchecked: tuple[Definition, ...]
    """Schemas and grammars of tools that are too expensive to be checked while a request is parsed."""


class NewConversation(Struct, frozen=True):
    """The items and metadata of a new conversation."""

    items: NewItems
    metadata: Metadata


class _RawConversation(Struct, frozen=True):
    items: list[Any] | None = None
    metadata: Metadata | None = None


class _RawItems(Struct, frozen=True):
    items: list[Any]


class _RawMetadata(Struct, frozen=True):
    metadata: Metadata | None


def parse_conversation(body: bytes) -> NewConversation:
    """Parse the body of a creation. All members are optional, and so is the body."""
    raw = decode(body or b"{}", _RawConversation)
    check_metadata(raw.metadata)
    return NewConversation(_parse_items(raw.items or []), raw.metadata or {})


def parse_new_items(body: bytes) -> NewItems:
    """Parse the body that adds items; at least one is required."""
    new = _parse_items(decode(body, _RawItems).items)
    if not new.items:
        raise InvalidRequest("'items' is empty; send at least one item.", param="items", code="empty_array")
    return new


def parse_metadata(body: bytes) -> Metadata:
    """Parse the body that replaces the metadata; null removes all pairs."""
    metadata = decode(body, _RawMetadata).metadata
    check_metadata(metadata)
    return metadata or {}


def _parse_items(values: list[Any]) -> NewItems:
    check_length(values, MAX_ITEMS, "items", "items")
    check_members(values, "items")
    definitions = Definitions()
    items = tuple(_parse_item(value, definitions, f"items[{index}]") for index, value in enumerate(values))
    return NewItems(items, definitions.unchecked)


def _parse_item(value: object, definitions: Definitions, path: str) -> Item:
    item = parse_item(value, definitions, path)
    reason = _NOT_STORED.get(item_type(item))
    if reason is not None:
        message = f"'{path}' is of type '{item_type(item)}', which is not stored. {reason}"
        raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")
    return item
