"""The port of hosted tools that this server runs.

A `ServedTool` is made once. For each request that declares it, `open` checks the declaration before the
first event, and returns the functions that the model is shown. A `HostedFunction` runs the model's calls and
emits the chunks of their items while it works. To add a tool: one file with these two classes, one line in
`wiring/hosted_tools.py`.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, NotFound, RequestError
from antiphon.mcp.names import FunctionNames, QualifiedTool
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import HostedItem, McpApprovalRequest, ToolSearchOutput
from antiphon.protocol.tools import CustomTool, FunctionTool, HostedTool, Tool
from antiphon.turn.chunks import Chunk, HostedItemDone
from antiphon.turn.deferred_servers import refers_to_server
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.toolbox import NO_HOSTED_TOOLS, HostedToolset, declared_in
from antiphon.turn.tools import HostedForm

MAX_DECLARED = 64
"""Hosted tools of one response that differ; each MCP server is one."""
MAX_LISTED_BYTES = 8 * 1024 * 1024
"""Of the lists of tools of all MCP servers of one response."""


class ToolScope(Struct, frozen=True):
    """Whose response the tool runs for, and what of its results the client is shown (`include`)."""

    tenant: str
    include: frozenset[str] = frozenset()
    key_id: str | None = None
    """The key of the request; None: none, or one of the settings."""
    response_id: str = ""
    native: frozenset[str] = frozenset()
    """The types of tools that the servers of the model run themselves."""
    history: Sequence[Item] = ()
    items: Sequence[Item] = ()
    """The context: the history, then the items of the request."""
    streamed: bool = False
    """Whether the client is sent events."""


class HostedFunction(Protocol):
    """A function of a hosted tool, for one response."""

    @property
    def form(self) -> HostedForm:
        """The function as the model is shown it."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether a call has no side effects, so that it may be run twice."""
        ...

    def approval_request(self, call: HostedCall) -> McpApprovalRequest | None:
        """The item that asks the client to approve the call; None if it may be run."""
        ...

    def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run a call: emit the chunks of its item, with `call.index`; the last one is `HostedItemDone`.
        Errors are raised. Closing the generator, or cancelling its task, ends the work."""
        ...

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """The item of a call that failed; its private side tells the model the reason."""
        ...

    def without_model(self, items: Sequence[Item]) -> str | None:
        """The arguments of a call that is made for a model that had to make one and did not; None if only a
        model can write them."""
        ...


class OpenedTool(Struct, frozen=True):
    """A declaration that is served: its functions, and items about it that the client is sent first."""

    functions: Sequence[HostedFunction]
    items: tuple[HostedItem, ...] = ()


class ServedTool(Protocol):
    """A hosted tool that this server runs."""

    @property
    def types(self) -> frozenset[str]:
        """The types of the declarations that it serves."""
        ...

    def owns(self, declared: HostedTool) -> bool:
        """Whether it may be one that the model's own server cannot run."""
        ...

    async def open(self, declared: HostedTool, key: str, scope: ToolScope, path: str) -> OpenedTool:
        """The functions of a declaration. `key` is unique, and `path` is the parameter.

        Raises `NotFound` if the declaration refers to objects that are not those of this server; another
        server may have them. Other errors end the request.
        """
        ...


class OpenedTools(Struct, frozen=True):
    """The hosted tools of one response: their functions by key, and how the model is shown them."""

    functions: Mapping[str, HostedFunction] = {}
    toolset: HostedToolset = NO_HOSTED_TOOLS
    scope: ToolScope = ToolScope("")
    items: tuple[HostedItem, ...] = ()
    """Items that the client is sent before the answer, unless the conversation has them."""


NONE_OPENED = OpenedTools()


class ServedTools:
    """The hosted tools that this server runs."""

    def __init__(self, tools: Sequence[ServedTool] = (), toolset: HostedToolset = NO_HOSTED_TOOLS) -> None:
        """`toolset` has what is the same for all requests."""
        self._by_type = {kind: tool for tool in tools for kind in tool.types}
        self.none = OpenedTools(toolset=replace(toolset, served=frozenset(self._by_type)))
        """The tools of a response that declares none."""

    @property
    def types(self) -> frozenset[str]:
        """The types of declarations that are served."""
        return self.none.toolset.served

    async def open(self, tools: Sequence[Tool], items: Sequence[Item], scope: ToolScope) -> OpenedTools:
        """Open the tools of a request, and those that items declare. Raises `RequestError` before anything
        was sent."""
        functions: dict[str, HostedFunction] = {}
        refused: dict[str, RequestError] = {}
        declared = [pair for pair in declared_hosted(tools, items) if pair[0].type in self._by_type]
        upstream = scope.native - {tool.type for tool, _ in declared if self._by_type[tool.type].owns(tool)}
        _refuse_same_labels(tools)
        found: dict[int, OpenedTool] = {}
        listed_bytes = 0
        for key, (tool, path) in enumerate(declared):
            if tool.type in upstream:
                continue
            served = self._by_type[tool.type]
            try:
                found[key] = await served.open(tool, f"{tool.type}/{key}", scope, path)
            except NotFound as error:
                refused[tool.type] = error  # the server of the model may have it
            else:
                listed_bytes = _with_listed(listed_bytes, found[key], path)
                functions |= {function.form.key: function for function in found[key].functions}
        if not found and not refused:
            return self.none
        toolset = replace(
            self.none.toolset,
            forms=_named([function.form for function in functions.values()], tools),
            opened=tuple(declared[key][0] for key in found),
            refused=refused,
        )
        shown = tuple(chain(*(opened.items for opened in found.values())))
        return OpenedTools(functions, toolset, scope, shown)


NONE_SERVED = ServedTools()


def _with_listed(size: int, opened: OpenedTool, path: str) -> int:
    """The bytes of all lists of tools, with those of another server."""
    size += sum(len(msgspec.json.encode(item)) for item in opened.items)
    if size > MAX_LISTED_BYTES:
        message = (
            f"The tools of the MCP servers have more than {MAX_LISTED_BYTES} bytes together. Leave some out "
            "with 'allowed_tools'."
        )
        raise InvalidRequest(message, param=path, code="tools_too_large")
    return size


def _refuse_same_labels(tools: Sequence[Tool]) -> None:
    seen: set[str | None] = set()
    for index, tool in enumerate(tools):
        label = _label(tool)
        if label is not None and label in seen:
            where = f"tools[{index}].server_label"
            message = f"The label '{label}' at '{where}' is used twice. Give each MCP server its own label."
            raise InvalidRequest(message, param=where, code="duplicate_tool_name")
        seen.add(label)


def _label(tool: Tool) -> str | None:
    """The label of an MCP server; other values are rejected when the tool is opened."""
    label: object = tool.body.get("server_label") if isinstance(tool, HostedTool) else None
    return label if isinstance(label, str) else None


def _named(forms: Sequence[HostedForm], tools: Sequence[Tool]) -> tuple[HostedForm, ...]:
    """The functions. Names of MCP tools that are not unique, or cannot be those of functions, are changed."""
    of_servers = [QualifiedTool(form.server_label, form.name) for form in forms if form.server_label]
    if not of_servers:
        return tuple(forms)
    reserved = {tool.name for tool in tools if isinstance(tool, FunctionTool | CustomTool)}
    names = FunctionNames(of_servers, reserved | {form.name for form in forms if not form.server_label})
    return tuple(
        replace(form, name=names.function_name(form.server_label, form.name)) if form.server_label else form
        for form in forms
    )


def declared_hosted(tools: Sequence[Tool], items: Sequence[Item]) -> Iterator[tuple[HostedTool, str]]:
    """The hosted tools, each with the parameter that declares it. A declaration that is repeated is the same
    tool."""
    known: list[HostedTool] = []
    labels = {_label(tool) for tool in tools}

    def is_declaration(tool: Tool, item: Item) -> bool:
        """Whether it is more than the result of a search, which refers to a declared server."""
        if not isinstance(tool, HostedTool) or not refers_to_server(tool, item):
            return True
        by_client = isinstance(item, ToolSearchOutput) and item.execution == "client"
        return by_client and _label(tool) not in labels

    paths = chain(
        ((tool, f"tools[{index}]") for index, tool in enumerate(tools)),
        ((tool, "input") for tool, item in declared_in(items) if is_declaration(tool, item)),
    )
    for tool, path in paths:
        if isinstance(tool, HostedTool) and tool not in known:
            if len(known) >= MAX_DECLARED:
                message = f"At most {MAX_DECLARED} different hosted tools are accepted."
                raise InvalidRequest(message, param="tools", code="array_above_max_length")
            known.append(tool)
            yield tool, path
