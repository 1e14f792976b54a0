"""The section `mcp`: servers of tools."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class McpServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One server: either a `url` or a `command`."""

    url: str = ""
    """Its address: streamable HTTP in any version, or the older HTTP+SSE."""
    headers: dict[str, str] = {}
    """Headers to send to the `url`; all of them are treated as secrets."""
    authorization_env: str = ""
    """The environment variable that holds a token, which is sent as `Authorization: Bearer TOKEN`."""
    command: str = ""
    """A program to start instead, which speaks on its standard input and output."""
    args: tuple[str, ...] = ()
    """Arguments of the `command`."""
    env: dict[str, str] = {}
    """Variables of the `command`. It inherits `PATH`, `HOME` and the like, and no keys of the server."""
    allowed_tools: tuple[str, ...] | dict[str, Any] | None = None
    """The tools that may be used: names, or `{tool_names, read_only}`; unset: all."""
    require_approval: Literal["always", "never"] | dict[str, Any] = "always"
    """Which calls need an approval: `always`, `never`, or `{always, never}` with filters of tools."""
    timeout: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds that a call may take."""


class McpSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """MCP servers (docs/guides/mcp.md)."""

    servers: dict[Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")], McpServerSettings] = {}
    """The servers of the operator, by label."""
    server_urls: bool = True
    """Whether requests may name servers by their URL, besides those of the operator."""
