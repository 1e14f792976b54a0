"""Which hosted tools a key may use, whoever runs them: this server or the one of the model."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from antiphon.caller import Caller
from antiphon.errors import Forbidden
from antiphon.protocol.items import Item
from antiphon.protocol.tools import HostedTool, Tool
from antiphon.service.hosted_tools.base import declared_hosted

MCP = "mcp"
_FAMILIES = ("web_search",)
"""Types whose dated and preview variants count as the type itself."""


def check_policy(caller: Caller, tools: Sequence[Tool], items: Sequence[Item]) -> None:
    """Raise `Forbidden` for the first hosted tool, declared by the request or by an item, that the key may
    not use."""
    if caller.tools is None:
        return
    for tool, path in declared_hosted(tools, items):
        kind, server = tool_family(tool.type), mcp_server(tool)
        if not caller.may_use(kind, server):
            what = f"the MCP server '{server}'" if server else f"the tool '{kind}'"
            raise Forbidden(
                f"This API key may not use {what}. Remove it from 'tools', or use a key that allows it.",
                param=path,
                code="tool_not_allowed",
            )


def tool_family(kind: str) -> str:
    """The type by which policies name a tool."""
    return next((family for family in _FAMILIES if kind.startswith(family)), kind)


def mcp_server(tool: HostedTool) -> str | None:
    """The host of an MCP server; the label of one that the operator has configured."""
    if tool.type != MCP:
        return None
    url = tool.complete.get("server_url")
    if not isinstance(url, str):
        label = tool.complete.get("server_label")
        return label if isinstance(label, str) else ""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
