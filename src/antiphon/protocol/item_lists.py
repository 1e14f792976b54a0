"""Items in listings: complete, with a status, and with the content of messages as parts.

The stored items are unchanged; only their wire form is completed here.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from antiphon.protocol.content import InputText, MessagePart, OutputText
from antiphon.protocol.items import CallItem, Item, Message, OpaqueItem, OutputOfCall, is_call, is_output
from antiphon.protocol.public_tools import public_item
from antiphon.protocol.stored_items import item_id


class ItemList(Struct, frozen=True, kw_only=True):
    """A page of items on the wire. An empty page has empty ids, because the wire type has no null."""

    object: Literal["list"] = "list"
    data: list[Any]
    first_id: str
    last_id: str
    has_more: bool


def list_items(items: Sequence[Item], *, has_more: bool = False) -> ItemList:
    """The wire form of a page."""
    return ItemList(
        data=[shown(item) for item in items],
        first_id=item_id(items[0]) if items else "",
        last_id=item_id(items[-1]) if items else "",
        has_more=has_more,
    )


def shown(item: Item) -> Any:
    """The wire form of one stored item, without the secrets of tools that an older database may contain."""
    item = public_item(item)
    if is_call(item) or is_output(item):
        return replace(item, status=_status(item))
    match item:
        case OpaqueItem():
            return item.body
        case Message():
            return replace(item, content=_as_parts(item), status=_status(item))
        case _:
            return item


def _as_parts(message: Message) -> list[MessagePart]:
    if not isinstance(message.content, str):
        return message.content
    if message.role == "assistant":
        return [OutputText(text=message.content)]
    return [InputText(text=message.content)]


def _status(item: Message | CallItem | OutputOfCall) -> str:
    """The status of an item; an item of a caller without one is completed."""
    return "completed" if isinstance(item.status, UnsetType) else item.status
