"""The private side of tools and items: sealed for the store, opened for the model.

Clients receive the public form only (`protocol/public_tools.py`). An item's private side is a JSON object of
the members that replace the public ones for the model. It is sealed if it contains secrets.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item, OpaqueItem
from antiphon.protocol.parse_tools import hosted_tool
from antiphon.protocol.public_tools import public_item
from antiphon.protocol.stored_items import item_id, item_type
from antiphon.protocol.tool_items import AdditionalTools, ToolSearchOutput
from antiphon.protocol.tools import HostedTool, Tool
from antiphon.turn.sealing import Sealer

_object = msgspec.json.Decoder(dict[str, Any])


def seal_tools(tools: Iterable[Tool], sealer: Sealer) -> str | None:
    """An envelope with the complete declarations of the tools that have secrets; None without such tools."""
    complete = [tool.private for tool in tools if isinstance(tool, HostedTool) and tool.private is not None]
    return sealer.seal_private({"tools": complete}) if complete else None


def open_tools(tools: tuple[Tool, ...], envelope: str | None, sealer: Sealer, param: str) -> tuple[Tool, ...]:
    """Stored tools with their secrets. `param` is the parameter that refers to them."""
    if envelope is None:
        return tools
    opened = sealer.open_private(envelope)
    bodies = [] if opened is None else cast("list[JsonObject]", opened["tools"])
    complete = [hosted_tool(str(body["type"]), body) for body in bodies]
    found = tuple(_completed(tool, complete) for tool in tools)
    if opened is None or complete:
        raise InvalidRequest(
            f"The tools of '{param}' contain credentials that cannot be opened, because they were sealed "
            "with another 'seal.key'. Send 'tools' again.",
            param="tools",
            code="invalid_encrypted_content",
        )
    return found


def _completed(tool: Tool, complete: list[HostedTool]) -> Tool:
    """The complete declaration of a public one. Equal public forms are matched in order, each once."""
    for index, candidate in enumerate(complete):
        if isinstance(tool, HostedTool) and _given(candidate.body) == _given(tool.body):
            return complete.pop(index)
    return tool


def _given(body: JsonObject) -> JsonObject:
    """The members without nulls, which mean the same as absent ones."""
    return {name: value for name, value in body.items() if value is not None}


def public_side(item: Item, sealer: Sealer) -> tuple[Item, str | None]:
    """An item of a client without the secrets of its tools, and the envelope of these secrets."""
    public = public_item(item)
    if public is item or not isinstance(item, AdditionalTools | ToolSearchOutput):
        return item, None
    return public, sealer.seal_private({"tools": item.tools})


def stored_sides(private: Mapping[str, JsonObject]) -> Mapping[str, str]:
    """The private sides of a turn's output in their stored form. They contain no secrets."""
    return {key: msgspec.json.encode(members).decode() for key, members in private.items()}


def model_sides(items: Sequence[Item], private: Mapping[str, str], sealer: Sealer) -> Sequence[Item]:
    """The items as the model sees them: those with a private side have its members."""
    if not private:
        return items
    return [
        item if (side := private.get(item_id(item))) is None else _with_members(item, side, sealer)
        for item in items
    ]


def _with_members(item: Item, private: str, sealer: Sealer) -> Item:
    members = _object.decode(private) if private.startswith("{") else sealer.open_private(private)
    if members is None:
        raise InvalidRequest(
            f"The item '{item_id(item)}' ({item_type(item)}) contains credentials that cannot be opened, "
            "because they were sealed with another 'seal.key'. Remove the item from the conversation, or "
            "start a new one, and send the tools again.",
            param="input",
            code="invalid_encrypted_content",
        )
    if isinstance(item, OpaqueItem):
        return OpaqueItem(item.type, {**item.body, **members})
    return msgspec.convert({**msgspec.to_builtins(item), **members}, type(item))
