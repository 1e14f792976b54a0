"""The pages of `tools/list` as a list of tools, within limits."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from antiphon.errors import McpProtocolError, TooManyValues
from antiphon.mcp.eras import header_value
from antiphon.mcp.messages import INVALID_RESULT, decode
from antiphon.mcp.port import McpTool
from antiphon.protocol.bounds import WINDOW_BYTES, ValueCounter
from antiphon.protocol.content import JsonObject

MAX_TOOLS = 1000
MAX_LIST_BYTES = 4 * 1024 * 1024
"""Of all pages together."""
MAX_LIST_VALUES = 100_000
"""Objects, arrays and separators of all pages together."""
VALUE_BYTES = 64
"""The memory that a value takes besides its text: an empty object is two characters."""
MAX_PAGES = 100
MAX_NAME_CHARS = 256
DEFAULT_TTL_SECONDS = 300.0
"""How long a list is valid if the server does not say it."""
MAX_TTL_SECONDS = 3600.0
MAX_HEADER_DEPTH = 16
"""Levels of properties in which arguments are looked for that are repeated as headers."""

_HEADER_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


class _Annotations(Struct, rename="camel"):
    read_only_hint: bool | None = None


class _Tool(Struct, rename="camel"):
    name: str
    input_schema: JsonObject = {}
    description: str | None = None
    annotations: _Annotations | None = None


class _Page(Struct, rename="camel"):
    tools: list[_Tool]
    next_cursor: str | None = None
    ttl_ms: float | None = None


class ToolList(Struct, frozen=True):
    """All tools of a server."""

    tools: tuple[McpTool, ...]
    ttl_seconds: float
    size_bytes: int
    """About how much memory it takes."""


_page = msgspec.json.Decoder(_Page)


class ListReader:
    """Collects pages. The order of tools is that of their names, so that it does not depend on the server."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._tools: dict[str, McpTool] = {}
        self._cursors: set[str] = set()
        self._ttl_seconds = MAX_TTL_SECONDS
        self._size_bytes = 0
        self._values = ValueCounter()

    def add(self, result: Raw) -> str | None:
        """Add a page; returns the cursor of the next one. Raises `McpProtocolError`."""
        encoded = bytes(result)
        self._size_bytes += len(encoded)
        if self._size_bytes > MAX_LIST_BYTES:
            raise self._refused(f"lists tools of more than {MAX_LIST_BYTES} bytes")
        self._count_values(encoded)
        page = decode(result, _page, self._label)
        for tool in page.tools:
            if 0 < len(tool.name) <= MAX_NAME_CHARS:
                self._tools.setdefault(tool.name, _tool(tool))
        if len(self._tools) > MAX_TOOLS:
            raise self._refused(f"lists more than {MAX_TOOLS} tools")
        ttl = DEFAULT_TTL_SECONDS if page.ttl_ms is None else max(0.0, page.ttl_ms / 1000)
        self._ttl_seconds = min(self._ttl_seconds, ttl)
        if page.next_cursor is None:
            return None
        if page.next_cursor in self._cursors or len(self._cursors) >= MAX_PAGES:
            raise self._refused("repeats the pages of its list of tools without end")
        self._cursors.add(page.next_cursor)
        return page.next_cursor

    def finish(self) -> ToolList:
        """The list of all pages."""
        tools = tuple(sorted(self._tools.values(), key=lambda tool: tool.name))
        return ToolList(tools, self._ttl_seconds, self._size_bytes + VALUE_BYTES * self._values.values)

    def _count_values(self, page: bytes) -> None:
        self._values.begin()
        try:
            for start in range(0, len(page), WINDOW_BYTES):
                self._values.feed(page[start : start + WINDOW_BYTES])
        except TooManyValues:
            self._values.values = MAX_LIST_VALUES + 1
        if self._values.values > MAX_LIST_VALUES:
            raise self._refused(f"lists tools with more than {MAX_LIST_VALUES} JSON values")

    def _refused(self, what: str) -> McpProtocolError:
        return McpProtocolError(f"The MCP server '{self._label}' {what}.", INVALID_RESULT)


def _tool(tool: _Tool) -> McpTool:
    read_only = bool(tool.annotations and tool.annotations.read_only_hint)
    headers = dict(_header_paths(tool.input_schema, ()))
    return McpTool(tool.name, tool.input_schema, tool.description or "", read_only, headers)


def _header_paths(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """The arguments with `x-mcp-header`, which HTTP intermediaries route by."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(path) >= MAX_HEADER_DEPTH:
        return
    for name, inner in cast("dict[str, Any]", properties).items():
        if isinstance(inner, dict):
            value = cast("dict[str, Any]", inner)
            token = value.get("x-mcp-header")
            if isinstance(token, str) and _HEADER_TOKEN.fullmatch(token):
                yield token, (*path, name)
            yield from _header_paths(value, (*path, name))


def param_headers(tool: McpTool, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that repeat arguments of a call."""
    headers: dict[str, str] = {}
    for token, path in tool.param_headers.items():
        value: Any = arguments
        for name in path:
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        if isinstance(value, bool):
            headers[f"mcp-param-{token}"] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            headers[f"mcp-param-{token}"] = header_value(str(value))
    return headers
