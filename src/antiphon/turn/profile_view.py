"""Apply a profile to the items that the model sees: roles, parts that become text, unreadable arguments."""

import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from antiphon.protocol.content import InputFile, InputImage, InputText, MessagePart
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import CustomToolCallOutput, FunctionCall, FunctionCallOutput, Item, Message
from antiphon.protocol.profile import Profile
from antiphon.turn.json_answer import is_json

_INLINE = re.compile(r"data:image/[^;,]+;base64,", re.IGNORECASE)

P = TypeVar("P", bound=MessagePart)


def apply_profile(items: Sequence[Item], profile: Profile, downgrades: Downgrades) -> tuple[Item, ...]:
    """The items as the profile shows them to the model."""
    if profile.arguments == "readable":
        items = [_readable(item, downgrades) for item in items]
    if profile.parts == "as_text":
        items = [_as_text(item) for item in items]
    if profile.roles == "user":
        items = [_from_user(item) for item in items]
    return tuple(items)


def _readable(item: Item, downgrades: Downgrades) -> Item:
    if not isinstance(item, FunctionCall) or is_json(item.arguments):
        return item
    text = "arguments of earlier calls that are not JSON are shown to the model as {}"
    downgrades.add("input_rewritten", text, "input")
    return replace(item, arguments="{}")


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
