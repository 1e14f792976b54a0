"""Deferred tools of MCP servers: how a search finds them, and how its result refers to them. Sans-IO.

For a search, the deferred tools of a server are a namespace with its label. The result refers to them,
`{"type": "mcp", "server_label": …, "allowed_tools": […]}`: the server stays declared in `tools`, and what may
be called is decided there.
"""

from collections.abc import Iterable
from typing import Any, cast

from msgspec import UNSET

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import ToolSearchOutput
from antiphon.protocol.tools import FunctionTool, HostedTool, NamespaceTool, Tool
from antiphon.turn.tools import HostedForm, mcp_key

_MCP = "mcp"
_ADDRESSES = ("server_url", "connector_id", "tunnel_id")


class DeferredServer(NamespaceTool, frozen=True):
    """The deferred tools of a server; the name is its label."""


def deferred_servers(forms: Iterable[HostedForm]) -> list[Tool]:
    """The deferred functions by server."""
    servers: dict[str, DeferredServer] = {}
    for form in forms:
        label = form.server_label
        if label not in servers:
            description: object = form.declared.body.get("server_description")
            about = description if isinstance(description, str) else UNSET
            servers[label] = DeferredServer(name=label, description=about, tools=[])
        name = form.key.removeprefix(mcp_key(label, ""))
        tool = FunctionTool(name=name, description=form.description, parameters=form.parameters)
        servers[label].tools.append(tool)
    return list(servers.values())


def search_result(tool: Tool) -> Tool:
    """A tool as the result of a search names it."""
    if not isinstance(tool, DeferredServer):
        return tool
    names = [member.name for member in tool.tools]
    return HostedTool(_MCP, {"type": _MCP, "server_label": tool.name, "allowed_tools": names})


def refers_to_server(tool: Tool, item: Item) -> bool:
    """Whether the tool of an item is a reference to tools of a server that is declared elsewhere."""
    if not isinstance(item, ToolSearchOutput) or not isinstance(tool, HostedTool) or tool.type != _MCP:
        return False
    return isinstance(tool.body.get("allowed_tools"), list) and not any(map(tool.body.get, _ADDRESSES))


def found_keys(body: JsonObject) -> list[str]:
    """The keys of the functions that a reference names."""
    label, names = body.get("server_label"), cast("list[Any]", body.get("allowed_tools") or [])
    return [mcp_key(str(label), name) for name in names if isinstance(name, str)]
