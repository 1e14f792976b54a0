"""The declaration of an MCP server in a request: which server it means, and how its tools may be used."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.mcp.approval import (
    ApprovalPolicy,
    ToolFilter,
    allowed,
    parse_allowed_tools,
    parse_require_approval,
)
from antiphon.mcp.configured import ConfiguredServer
from antiphon.mcp.http_server import check_address
from antiphon.mcp.port import McpServer, McpTool, RemoteServer
from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse import convert

MAX_HEADERS = 64
MAX_DESCRIPTION_CHARACTERS = 1000
_ELSEWHERE = ("connector_id", "tunnel_id")


class _Body(Struct, frozen=True):
    server_label: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    server_url: str | None = None
    server_description: str | None = None
    authorization: str | None = None
    headers: Annotated[dict[str, str], Meta(max_length=MAX_HEADERS)] | None = None


class ServerUse(Struct, frozen=True):
    """A server, and the rules for its tools. The operator's rules hold besides those of the request."""

    server: McpServer
    description: str
    filters: tuple[ToolFilter, ...]
    policies: tuple[ApprovalPolicy, ...]
    timeout_seconds: float | None
    """The time of a call; None: that of all hosted tools."""

    @property
    def label(self) -> str:
        return self.server.label

    def usable(self, tools: tuple[McpTool, ...]) -> tuple[McpTool, ...]:
        """The tools that may be used."""
        for which in self.filters:
            tools = allowed(tools, which)
        return tools

    def needs_approval(self, tool: McpTool) -> bool:
        return any(policy.needs_approval(tool) for policy in self.policies)


def read_declaration(body: JsonObject, path: str, configured: Mapping[str, ConfiguredServer]) -> ServerUse:
    """The use of a server that a tool of the type `mcp` declares. Raises `InvalidRequest`."""
    for member in _ELSEWHERE:
        if body.get(member) is not None:
            where = f"{path}.{member}"
            message = (
                f"'{where}' refers to servers of OpenAI, which are not available here. Use 'server_url'."
            )
            raise Unsupported(message, param=where, code="unsupported_parameter")
    given = convert(body, _Body, path)
    chosen = parse_allowed_tools(body.get("allowed_tools"), f"{path}.allowed_tools")
    wanted: Any = body.get("require_approval")
    approval = parse_require_approval(wanted, f"{path}.require_approval")
    description = (given.server_description or "")[:MAX_DESCRIPTION_CHARACTERS]
    if given.server_url is not None:
        server = _remote(given, path)
        return ServerUse(server, description, (chosen,), (approval,), None)
    known = configured.get(given.server_label)
    if known is None:
        raise InvalidRequest(
            f"'{path}' needs 'server_url': this server has no MCP server with the label "
            f"'{given.server_label}' of its own.",
            param=f"{path}.server_url",
            code="missing_required_parameter",
        )
    for member in ("authorization", "headers"):
        if body.get(member) is not None:
            where = f"{path}.{member}"
            message = f"'{where}' cannot be given: the operator configures the server '{given.server_label}'."
            raise InvalidRequest(message, param=where, code="invalid_value")
    policies = (known.approval,) if wanted is None else (known.approval, approval)
    return ServerUse(
        known.server, description, (known.allowed_tools, chosen), policies, known.timeout_seconds
    )


def _remote(given: _Body, path: str) -> RemoteServer:
    headers = dict(given.headers or {})
    if given.authorization is not None:
        if any(name.lower() == "authorization" for name in headers):
            message = f"'{path}' has 'authorization' and a header of this name. Send one of them."
            raise InvalidRequest(message, param=f"{path}.authorization", code="mutually_exclusive_parameters")
        headers["authorization"] = f"Bearer {given.authorization}"
    server = RemoteServer(label=given.server_label, url=given.server_url or "", headers=headers)
    try:
        check_address(server)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, param=f"{path}.server_url", code=error.code) from None
    return server
