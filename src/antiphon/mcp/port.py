"""The port to MCP servers: the addresses of servers, their tools, and the outcomes of calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import Struct

from antiphon.errors import McpError, McpHttpError
from antiphon.protocol.content import InputImage, InputText, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServer:
    """A server with a URL. `label` identifies it in errors."""

    label: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Sent with every request; all of them are treated as secrets."""
    configured: bool = False
    """Whether the operator configured it. Otherwise a request names it, and only public addresses and those
    of `egress.allow` are permitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandServer:
    """A server that is a child process. Only the operator configures one, never a request."""

    label: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Added to the few variables that a child inherits."""


McpServer = RemoteServer | CommandServer


class McpTool(Struct, frozen=True):
    """A tool of a server."""

    name: str
    input_schema: JsonObject
    description: str = ""
    read_only: bool = False
    """Whether the server says that it changes nothing (`readOnlyHint`)."""
    param_headers: dict[str, tuple[str, ...]] = {}
    """Arguments that are repeated as HTTP headers: the header, and the path of the argument."""


class McpProgress(Struct, frozen=True):
    """How far a call has come, in a unit of the server."""

    progress: float
    total: float | None = None
    message: str = ""


OnProgress = Callable[[McpProgress], None]


class ProtocolErrorItem(Struct, tag_field="type", tag="mcp_protocol_error", frozen=True):
    """The `error` of an `mcp_call`: the server answered with a JSON-RPC error, or not with MCP."""

    code: int
    message: str


class HttpErrorItem(Struct, tag_field="type", tag="http_error", frozen=True):
    """The `error` of an `mcp_call`: the server cannot be reached, or answered with an HTTP error."""

    code: int
    message: str


class ExecutionErrorItem(Struct, tag_field="type", tag="mcp_tool_execution_error", frozen=True):
    """The `error` of an `mcp_call`: the tool ran and failed."""

    content: list[JsonObject]


CallError = ProtocolErrorItem | HttpErrorItem | ExecutionErrorItem


class CallOutcome(Struct, frozen=True):
    """What a call led to."""

    output: str
    """The text for the model; of a failed call, what went wrong."""
    parts: tuple[InputText | InputImage, ...] = ()
    """The same with its images, if there are any."""
    structured: Any = None
    """`structuredContent` of the result."""
    error: CallError | None = None


class McpTools(Protocol):
    """The tools of MCP servers."""

    async def list_tools(self, tenant: str, server: McpServer) -> tuple[McpTool, ...]:
        """All tools, ordered by name. Raises `McpError` with the status 424 if they cannot be listed."""
        ...

    async def call_tool(
        self,
        tenant: str,
        server: McpServer,
        name: str,
        arguments: Mapping[str, Any],
        *,
        seconds: float,
        on_progress: OnProgress | None = None,
        read_only: bool = False,
    ) -> CallOutcome:
        """Call a tool. A call that fails or takes too long is an outcome with an error, not an exception. If
        the caller is cancelled, so is the call. `read_only`: it may be sent twice. Raises `InvalidRequest`
        for an address that cannot be used (`http_server.check_address`)."""
        ...

    async def aclose(self) -> None:
        """End all connections and child processes."""
        ...


def outcome_of(error: McpError) -> CallOutcome:
    """The outcome of a call that did not reach its tool, or got no result from it."""
    kind = HttpErrorItem if isinstance(error, McpHttpError) else ProtocolErrorItem
    return CallOutcome(error.message, error=kind(error.number, error.message))
