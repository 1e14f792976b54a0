"""A tool that clients of MCP can call: its definition, a call of it, its result."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from antiphon.caller import Caller
from antiphon.errors import AntiphonError
from antiphon.mcp.messages import INVALID_PARAMS
from antiphon.protocol.content import JsonObject
from antiphon.protocol.gate import stateless
from antiphon.protocol.profile import Profile
from antiphon.server.lifetime import Lease
from antiphon.server.mcp.rpc import RpcFault
from antiphon.service.responses.run import ResponseRun

MAX_TEXT_CHARACTERS = 1_000_000
"""Of a result; a longer text is cut, and the result says so."""

Report = Callable[[str], Awaitable[None]]
"""Sends a line about the progress of a call, if the client wants that."""


class ToolWork:
    """The work on one call, for the time after its client has left."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._run: ResponseRun | None = None

    def begin(self, run: ResponseRun) -> None:
        """The call makes this response: its turns have deadlines, and it is cancelled with the call."""
        self._run = run
        self._lease.limit_turns(run)

    async def abandon(self) -> None:
        """Save the response as far as it was made. Does nothing after its end."""
        if self._run is not None:
            await self._run.abandon()


class ToolCall(NamedTuple):
    """A call of a tool."""

    caller: Caller
    profile: Profile
    arguments: bytes
    report: Report
    work: ToolWork


class ToolResult(NamedTuple):
    """The result of a call: texts for a model, and the same as data."""

    texts: tuple[str, ...]
    structured: JsonObject

    def wire(self) -> JsonObject:
        return {"content": _content(self.texts), "structuredContent": self.structured, "isError": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """A tool, and the scope that a key needs for it."""

    name: str
    title: str
    description: str
    inputs: JsonObject
    """The schema of the arguments."""
    outputs: JsonObject
    """The schema of the structured result."""
    run: Callable[[ToolCall], Awaitable[ToolResult]]
    scope: str | None
    stateful: bool = False
    """Works on stored objects, so profiles without state reject it."""
    read_only: bool = False
    destructive: bool = False
    open_world: bool = False
    """Whether it reaches models or other servers."""

    def wire(self) -> JsonObject:
        """The definition, as a client sees it."""
        hints = {"readOnlyHint": self.read_only, "openWorldHint": self.open_world}
        if not self.read_only:
            hints["destructiveHint"] = self.destructive
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.inputs,
            "outputSchema": self.outputs,
            "annotations": {"title": self.title, **hints},
        }


class McpTools:
    """The tools of the server; each caller sees those that its key allows."""

    def __init__(self, tools: Iterable[McpTool]) -> None:
        self._tools: Mapping[str, McpTool] = {tool.name: tool for tool in tools}

    def list(self, caller: Caller, profile: Profile) -> list[JsonObject]:
        """The definitions of the tools that this caller may call, always in the same order."""
        return [
            tool.wire()
            for tool in self._tools.values()
            if (tool.scope is None or tool.scope in caller.scopes) and (profile.state or not tool.stateful)
        ]

    def find(self, name: str, caller: Caller, profile: Profile) -> McpTool:
        """The tool of this name. Raises `RpcFault` if there is none, and `Forbidden` or `Unsupported` if this
        caller may not call it."""
        tool = self._tools.get(name)
        if tool is None:
            raise RpcFault(INVALID_PARAMS, f"Unknown tool: '{name[:100]}'. tools/list lists the tools.")
        if tool.scope is not None:
            caller.require(tool.scope)
        if tool.stateful and not profile.state:
            raise stateless(tool.name)
        return tool


def object_schema(properties: JsonObject, required: tuple[str, ...] = ()) -> JsonObject:
    """The schema of an object that has no other members."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def text_schema(description: str, **more: Any) -> JsonObject:
    return {"type": "string", "description": description, **more}


def failed_call(error: AntiphonError) -> JsonObject:
    """The result of a call that failed: the model reads the reason, and may correct its arguments."""
    code = f" (code: {error.code})" if error.code else ""
    return {"content": _content((error.message + code,)), "isError": True}


def bounded_text(text: str) -> tuple[str, bool]:
    """The beginning of a text, and whether there is more of it."""
    return text[:MAX_TEXT_CHARACTERS], len(text) > MAX_TEXT_CHARACTERS


def _content(texts: tuple[str, ...]) -> list[JsonObject]:
    return [{"type": "text", "text": text} for text in texts]
