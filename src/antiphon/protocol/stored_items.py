"""Items as text, for stores. Decoding restores the same items."""

from collections.abc import Iterable, Sequence

import msgspec

from antiphon.protocol.items import ITEM_TYPES, Item, OpaqueItem, TypedItem
from antiphon.protocol.public_tools import public_item

_typed = msgspec.json.Decoder(TypedItem)


def item_type(item: Item) -> str:
    """The wire type of an item."""
    return item.type if isinstance(item, OpaqueItem) else str(item.__struct_config__.tag)


def item_id(item: Item) -> str:
    """The id of an item; empty if it has none."""
    found = item.body.get("id") if isinstance(item, OpaqueItem) else item.id
    return found if isinstance(found, str) else ""


def item_to_text(item: Item) -> str:
    """The JSON of an item, without the secrets of tools that it declares."""
    item = public_item(item)
    return msgspec.json.encode(item.body if isinstance(item, OpaqueItem) else item).decode()


def item_from_text(kind: str, text: str) -> Item:
    """The item of this type."""
    if kind in ITEM_TYPES:
        return _typed.decode(text)
    return OpaqueItem(kind, msgspec.json.decode(text))


def items_from_texts(rows: Iterable[Sequence[str]]) -> list[Item]:
    """The items of rows that begin with a type and a text. There may be thousands, so no call more than
    necessary."""
    decode = _typed.decode
    return [decode(row[1]) if row[0] in ITEM_TYPES else item_from_text(row[0], row[1]) for row in rows]
