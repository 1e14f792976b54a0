"""Tools that a server runs, declared as this API does it, as the hosted tools of the engine."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.parse import convert
from antiphon.protocol.parse_tools import hosted_tool
from antiphon.protocol.tools import HostedTool
from antiphon.protocol.web_search import MAX_DOMAINS, is_domain
from antiphon.server.compat.foreign_params import not_used

MCP_TOOLSET = "mcp_toolset"
MAX_MCP_SERVERS = 20
CODE_INTERPRETER, WEB_SEARCH = "code_interpreter", "web_search"
_TYPES = {"web_search": WEB_SEARCH, "code_execution": CODE_INTERPRETER}
"""The engine's types of tools, by the names that tools have here."""

Domains = Annotated[list[str], Meta(max_length=MAX_DOMAINS)]


class WebSearchTool(Struct, frozen=True, kw_only=True):
    """A declared `web_search_*`."""

    allowed_domains: Domains | None = None
    blocked_domains: Domains | None = None
    max_uses: Annotated[int, Meta(ge=1)] | None = None
    user_location: JsonObject | None = None


class ToolConfiguration(Struct, frozen=True):
    """The tools of a server that may be used: the older form, before there were toolsets."""

    allowed_tools: list[str] | None = None
    enabled: bool | None = None


class McpServer(Struct, frozen=True):
    """An MCP server in `mcp_servers`."""

    type: Literal["url"]
    url: str
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    authorization_token: str | None = None
    tool_configuration: ToolConfiguration | None = None


class ToolConfig(Struct, frozen=True):
    """How one tool, or every tool, of a toolset is used."""

    enabled: bool | None = None
    defer_loading: bool | None = None


class McpToolset(Struct, frozen=True):
    """The tools of a server."""

    mcp_server_name: str
    default_config: ToolConfig = ToolConfig()
    configs: dict[str, ToolConfig] | None = None
    tools: list[JsonObject] | None = None


class ServerTools:
    """The tools of one request that a server runs, and the names of their members here."""

    def __init__(self, servers: Sequence[Any], container: object, downgrades: Downgrades) -> None:
        if len(servers) > MAX_MCP_SERVERS:
            message = f"'mcp_servers' has {len(servers)} servers; at most {MAX_MCP_SERVERS} are accepted."
            raise InvalidRequest(message, param="mcp_servers", code="array_above_max_length")
        self._servers: dict[str, tuple[int, McpServer]] = {}
        for index, value in enumerate(servers):
            path = f"mcp_servers[{index}]"
            server = convert(value, McpServer, path)
            if server.name in self._servers:
                message = (
                    f"The name '{server.name}' at '{path}.name' is used twice. Give each server its own."
                )
                raise InvalidRequest(message, param=f"{path}.name", code="duplicate_tool_name")
            self._servers[server.name] = index, server
        self._container = _container_id(container)
        self._downgrades = downgrades
        self._runs_code = False
        self._used: set[str] = set()
        self._uses: list[int | None] = []
        """The limits of the declared tools; None: there is none."""
        self.names: dict[str, str] = {}
        """Parameters of the engine, and their names here."""

    @property
    def max_calls(self) -> int | None:
        """The calls that all tools together may have; None if one of them has no limit."""
        limits = [limit for limit in self._uses if limit is not None]
        return sum(limits) if limits and len(limits) == len(self._uses) else None

    def read(self, kind: str, body: JsonObject, path: str) -> HostedTool:
        """A declared tool."""
        if kind == MCP_TOOLSET:
            return self._toolset(convert(body, McpToolset, path), path)
        family = kind.rpartition("_")[0]
        if family == "web_search":
            return self._web_search(convert(body, WebSearchTool, path), path)
        self._uses.append(None)
        if family == "code_execution":
            self._runs_code = True
            self.names[f"{path}.container"] = "container"
            container: object = {"type": "auto"} if self._container is None else self._container
            return hosted_tool(CODE_INTERPRETER, {"type": CODE_INTERPRETER, "container": container})
        return hosted_tool(kind, body)

    def remaining(self, count: int) -> list[HostedTool]:
        """The servers in the older form, which no toolset refers to. `count`: the tools before them."""
        if not self._used:
            found = [
                self._server(index, server, _allowed(server), f"tools[{count + position}]")
                for position, (index, server) in enumerate(
                    (index, server) for index, server in self._servers.values() if _enabled(server)
                )
            ]
            if found and not count:
                self.names["tools"] = "mcp_servers"
        else:
            found = []
            for name, (index, _) in self._servers.items():
                if name not in self._used:
                    where = f"mcp_servers[{index}]"
                    message = f"'{where}' is not used: no 'mcp_toolset' in 'tools' names the server '{name}'."
                    raise InvalidRequest(message, param=where, code="invalid_value")
        if self._container is not None and not self._runs_code:
            self._downgrades.append(not_used("container"))
        if any(limit is not None for limit in self._uses) and self.max_calls is None:
            text = "'max_uses' is not used: it would limit the other tools, too"
            self._downgrades.add("not_used", text, "tools")
        return found

    def _web_search(self, tool: WebSearchTool, path: str) -> HostedTool:
        if tool.allowed_domains and tool.blocked_domains:
            message = f"'{path}' has 'allowed_domains' and 'blocked_domains'. Send one of them."
            where = f"{path}.blocked_domains"
            raise InvalidRequest(message, param=where, code="mutually_exclusive_parameters")
        self._uses.append(tool.max_uses)
        filters: JsonObject = {}
        for name in ("allowed_domains", "blocked_domains"):
            domains = cast("list[str] | None", getattr(tool, name))
            if domains:
                filters[name] = [
                    _domain(domain, f"{path}.{name}[{index}]") for index, domain in enumerate(domains)
                ]
        body: JsonObject = {"type": WEB_SEARCH}
        if filters:
            body["filters"] = filters
        if tool.user_location:
            body["user_location"] = tool.user_location
        return hosted_tool(WEB_SEARCH, body)

    def _toolset(self, toolset: McpToolset, path: str) -> HostedTool:
        where = f"{path}.mcp_server_name"
        name = toolset.mcp_server_name
        found = self._servers.get(name)
        if found is None:
            message = f"'{where}' names the server '{name}', which is not in 'mcp_servers'."
            raise InvalidRequest(message, param=where, code="invalid_value")
        if name in self._used:
            message = f"'{where}' names the server '{name}' a second time. Use one toolset for each server."
            raise InvalidRequest(message, param=where, code="duplicate_tool_name")
        self._used.add(name)
        configs = toolset.configs or {}
        if toolset.default_config.defer_loading or any(one.defer_loading for one in configs.values()):
            text = "'defer_loading' is ignored: the model is shown every tool"
            self._downgrades.add("not_used", text, "tools")
        return self._server(*found, _selected(toolset, path), path)

    def _server(self, index: int, server: McpServer, allowed: list[str] | None, path: str) -> HostedTool:
        """This API has no approvals: its clients permit all tools that they enable."""
        here = f"mcp_servers[{index}]"
        self._uses.append(None)
        self.names |= {
            path: here,
            f"{path}.type": here,
            f"{path}.server_url": f"{here}.url",
            f"{path}.server_label": f"{here}.name",
            f"{path}.authorization": f"{here}.authorization_token",
        }
        body: JsonObject = {
            "type": "mcp",
            "server_label": server.name,
            "server_url": server.url,
            "require_approval": "never",
        }
        if server.authorization_token is not None:
            body["authorization"] = server.authorization_token
        if allowed is not None:
            body["allowed_tools"] = allowed
        return hosted_tool("mcp", body)


def hosted_type(name: str, declared: Mapping[str, object]) -> str | None:
    """The engine's type of the tool that is named so here; None if none of `declared`, by type, is."""
    kind = _TYPES.get(name)
    return kind if kind in declared else None


def _container_id(container: object) -> str | None:
    """The id of the container of a request."""
    if isinstance(container, dict):
        members = cast("JsonObject", container)
        if members.get("skills"):
            message = "'container.skills' is not supported by this server. Leave it out."
            raise Unsupported(message, param="container.skills", code="unsupported_parameter")
        container = members.get("id")
    return None if container is None else convert(container, str, "container") or None


def _domain(text: str, path: str) -> str:
    if not is_domain(text):
        message = (
            f"Invalid value for '{path}': write a domain without scheme and path, such as 'example.com'."
        )
        raise InvalidRequest(message, param=path, code="invalid_value")
    return text


def _enabled(server: McpServer) -> bool:
    return server.tool_configuration is None or server.tool_configuration.enabled is not False


def _allowed(server: McpServer) -> list[str] | None:
    return None if server.tool_configuration is None else server.tool_configuration.allowed_tools


def _selected(toolset: McpToolset, path: str) -> list[str] | None:
    """The names of the tools that may be used; None: all."""
    configs = toolset.configs or {}
    disabled = [name for name, config in configs.items() if config.enabled is False]
    if toolset.default_config.enabled is False:
        return [name for name, config in configs.items() if config.enabled]
    if toolset.tools is not None:  # a pinned list: its names, without those that are disabled
        pinned = (str(tool.get("name")) for tool in toolset.tools)
        return [name for name in pinned if name not in disabled]
    if disabled:
        where = f"{path}.configs"
        message = (
            f"'{where}' disables the tool '{disabled[0]}', but not all others. Send 'default_config': "
            "{'enabled': false} and enable the tools that may be used."
        )
        raise Unsupported(message, param=where, code="unsupported_value")
    return None
