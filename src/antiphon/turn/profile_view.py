"""Apply a profile to the items that the model sees: roles, and parts that become text."""

import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from antiphon.protocol.content import InputFile, InputImage, InputText, MessagePart
from antiphon.protocol.items import CustomToolCallOutput, FunctionCallOutput, Item, Message
from antiphon.protocol.profile import Profile

_INLINE = re.compile(r"data:image/[^;,]+;base64,", re.IGNORECASE)

P = TypeVar("P", bound=MessagePart)


def apply_profile(items: Sequence[Item], profile: Profile) -> tuple[Item, ...]:
    if profile.parts == "as_text":
        items = [_as_text(item) for item in items]
    if profile.roles == "user":
        items = [_from_user(item) for item in items]
    return tuple(items)


def _from_user(item: Item) -> Item:
    if isinstance(item, Message) and item.role in ("system", "developer"):
        return replace(item, role="user")
    return item


def _as_text(item: Item) -> Item:
    if isinstance(item, Message) and not isinstance(item.content, str):
        return replace(item, content=[_part_as_text(part) for part in item.content])
    if isinstance(item, FunctionCallOutput | CustomToolCallOutput) and not isinstance(item.output, str):
        return replace(item, output=[_part_as_text(part) for part in item.output])
    return item


def _part_as_text(part: P) -> P | InputText:
    inline = isinstance(part, InputImage) and _INLINE.match(part.image_url or "") is not None
    if isinstance(part, InputFile | InputImage) and not inline:
        return InputText(text=msgspec.json.encode(part).decode())
    return part
