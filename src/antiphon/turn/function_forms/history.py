"""The history for a backend: items that it does not take natively are shown in function form.

Items that declare tools are dropped, because those tools are declared by now (`turn/toolbox.py`). Calls of
MCP tools, searches and runs of code of this server, and images are shown with their results. Items of other
hosted tools are dropped and reported: the messages after them contain their results. An item that cannot be
shown at all is an error, because the answer would be different without it.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import UNSET

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.containers import is_own_container
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import (
    HOSTED_ITEMS,
    CallItem,
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    Message,
    OpaqueItem,
    OutputOfCall,
    Reasoning,
    call_id_of,
    is_call,
    is_output,
)
from antiphon.protocol.stored_items import item_type
from antiphon.protocol.tool_items import (
    AdditionalTools,
    CodeInterpreterCall,
    FileSearchCall,
    ImageGenerationCall,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    ShellCall,
    ToolSearchOutput,
    WebSearchCall,
)
from antiphon.protocol.web_search import WEB_SEARCH_TYPES
from antiphon.turn.function_forms.calls import call_arguments
from antiphon.turn.function_forms.code_runs import PYTHON, show_code_run
from antiphon.turn.function_forms.file_searches import (
    FileSearches,
    Sources,
    found_here,
)
from antiphon.turn.function_forms.images import show_image
from antiphon.turn.function_forms.mcp_calls import McpCalls
from antiphon.turn.function_forms.outputs import call_output
from antiphon.turn.function_forms.web_searches import searched_here, show_web_search
from antiphon.turn.provider_state import OpenedReasoning
from antiphon.turn.tools import MAX_NAME_CHARACTERS, TurnTool, flat_name, mcp_key

_NEEDS: dict[str, tuple[str, ...]] = {
    "function_call": ("function",),
    "custom_tool_call": ("custom",),
    "tool_search_call": ("tool_search",),
    "tool_search_output": ("tool_search",),
    "apply_patch_call": ("apply_patch",),
    "shell_call": ("shell",),
    "local_shell_call": ("local_shell",),
    "computer_call": ("computer", "computer_use_preview"),
    "web_search_call": ("web_search", "web_search_preview"),
    "file_search_call": ("file_search",),
    "code_interpreter_call": ("code_interpreter",),
    "image_generation_call": ("image_generation",),
    "mcp_list_tools": ("mcp",),
    "mcp_call": ("mcp",),
    "mcp_approval_request": ("mcp",),
    "mcp_approval_response": ("mcp",),
    "program": ("programmatic_tool_calling",),
    "program_output": ("programmatic_tool_calling",),
}
"""The tool types that a backend must take natively to read an item. An output goes with its call."""
_UNCHANGED = (Message, Reasoning)
_PLAIN = frozenset((Message, Reasoning, OpenedReasoning, FunctionCall, FunctionCallOutput))
_MCP = "calls of MCP tools in the input are shown as calls of functions"
_INVALID_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Shown(NamedTuple):
    """The items to show, and the index of the given item for each; no indices: they are the same."""

    items: tuple[Item, ...]
    places: tuple[int, ...] = ()
    sources: Sources = Sources()
    """The passages that the model can cite."""


def show_as_functions(
    items: Sequence[Item],
    tools: Sequence[TurnTool],
    native: frozenset[str],
    downgrades: Downgrades,
    *,
    path: Callable[[int], str],
    result_tokens: int,
    served: frozenset[str] = frozenset(),
) -> Shown:
    """Show the items to a backend that takes the tool types in `native`. `path` names a given item. The
    results of searches have at most `result_tokens`. `served`: the hosted tools that this server runs."""
    if _are_plain(items, native):
        return Shown(tuple(items))
    history = _History(
        tools,
        native,
        downgrades,
        searches=FileSearches(result_tokens),
        mcp=McpCalls(items),
        served=served,
    )
    for index, item in enumerate(items):
        history.add(item, index, path)
    history.searches.limit(history.items)
    places = tuple(history.places)
    return Shown(
        tuple(history.items),
        () if places == tuple(range(len(items))) else places,
        Sources(tuple(history.searches.results)),
    )


def _are_plain(items: Sequence[Item], native: frozenset[str]) -> bool:
    """Whether every item is shown as it is: messages, reasoning, and functions without a namespace.

    A history has thousands of items, nearly always of these types, so this is one lookup per item.
    """
    if not _PLAIN.issuperset(map(type, items)):
        return False
    calls = [item for item in items if type(item) is FunctionCall]
    return not calls or ("function" in native and all(item.namespace is UNSET for item in calls))


class _History:
    def __init__(
        self,
        tools: Sequence[TurnTool],
        native: frozenset[str],
        downgrades: Downgrades,
        *,
        searches: FileSearches,
        mcp: McpCalls,
        served: frozenset[str],
    ) -> None:
        self.searches = searches
        self._mcp = mcp
        self._serves_mcp = "mcp" in served
        self.items: list[Item] = []
        self.places: list[int] = []
        self._names = {(tool.namespace, tool.origin): tool.name for tool in tools}
        self._hosted_names = {tool.origin: tool.name for tool in tools if tool.kind == "hosted"}
        self._kinds: dict[str, str] = {tool.hosted_type or tool.kind: tool.name for tool in tools}
        self._web = {
            tool.origin.rpartition("/")[2]: tool.name
            for tool in tools
            if tool.hosted_type in WEB_SEARCH_TYPES
        }
        self._native = native
        self._downgrades = downgrades
        self._native_calls: set[str] = set()
        self._commands: dict[str, list[str]] = {}
        self._searches = 0

    def add(self, item: Item, index: int, path: Callable[[int], str]) -> None:
        if isinstance(item, _UNCHANGED):
            self._show(index, item)
        elif is_call(item):
            self._call(item, index)
        elif is_output(item):
            self._output(item, index)
        elif not isinstance(item, AdditionalTools):
            self._other(item, index, path)

    def _show(self, index: int, *items: Item) -> None:
        self.items += items
        self.places += [index] * len(items)

    def _takes(self, kind: str) -> bool:
        return any(tool in self._native for tool in _NEEDS.get(kind, ()))

    def _call(self, item: CallItem, index: int) -> None:
        call_id = call_id_of(item)
        namespaced = isinstance(item, FunctionCall | CustomToolCall) and isinstance(item.namespace, str)
        native = self._takes(item_type(item)) and not _made_here(item)
        if native and (not namespaced or "namespace" in self._native):
            if call_id is not None:
                self._native_calls.add(call_id)
            self._show(index, item)
            return
        if isinstance(item, ShellCall):
            commands: list[str] = item.action.get("commands") or []
            self._commands[item.call_id] = commands
        if call_id is None:
            self._searches += 1
            call_id = self._search_id()
        call = FunctionCall(
            id=item.id,
            call_id=call_id,
            name=self._name(item),
            arguments=call_arguments(item),
            status=item.status,
        )
        self._show(index, call)

    def _name(self, item: CallItem) -> str:
        """The name that the model knows the tool by, or would if it is no longer declared."""
        if isinstance(item, FunctionCall | CustomToolCall):
            namespace = item.namespace if isinstance(item.namespace, str) else None
            known = self._names.get((namespace, item.name))
            return known or (item.name if namespace is None else flat_name(namespace, item.name))
        kind = item_type(item).removesuffix("_call")
        return self._kinds.get(kind, kind)

    def _mcp_name(self, item: McpCall | McpApprovalRequest) -> str:
        """The name that the model knows the tool by, or one like it if it is no longer declared."""
        known = self._names.get((None, mcp_key(item.server_label, item.name)))
        return known or _INVALID_IN_NAME.sub("_", f"{item.server_label}__{item.name}")[:MAX_NAME_CHARACTERS]

    def _output(self, item: OutputOfCall, index: int) -> None:
        call_id = call_id_of(item)
        native = (
            self._takes(item_type(item))
            if isinstance(item, ToolSearchOutput)
            else call_id in self._native_calls
        )
        if native or isinstance(item, FunctionCallOutput):
            self._show(index, item)
        elif call_id is not None:
            output = call_output(item, self._commands.get(call_id, ()), self._hosted_names)
            status = item.status if isinstance(item, CustomToolCallOutput) else UNSET
            self._show(index, FunctionCallOutput(id=item.id, call_id=call_id, output=output, status=status))
        elif self._searches:
            call_id = self._search_id()
            self._show(
                index,
                FunctionCallOutput(
                    id=item.id, call_id=call_id, output=call_output(item, names=self._hosted_names)
                ),
            )

    def _search_id(self) -> str:
        """A server's own searches have no call ids."""
        return f"call_tool_search_{self._searches}"

    def _other(self, item: Item, index: int, path: Callable[[int], str]) -> None:
        kind = item_type(item)
        if self._takes(kind) and not _made_here(item):
            self._show(index, item)
        elif isinstance(item, WebSearchCall) and (self._web or searched_here(item)):
            self._show(index, *show_web_search(item, self._web, self.searches, len(self.items)))
        elif isinstance(item, FileSearchCall):
            name = self._kinds.get("file_search", "file_search")
            self._show(index, *self.searches.show(item, name, len(self.items)))
        elif isinstance(item, ImageGenerationCall):
            name = self._kinds.get("image_generation", "image_generation")
            self._show(index, *show_image(item, name, index))
        elif isinstance(item, CodeInterpreterCall) and _made_here(item):
            name = self._kinds.get("code_interpreter", PYTHON)
            self._show(index, *show_code_run(item, name, len(self.items)))
        elif isinstance(item, McpCall):
            if not self._serves_mcp:
                self._downgrades.add("input_rewritten", _MCP, "input")
            self._show(index, *self._mcp.show_call(item, self._mcp_name(item), index))
        elif self._serves_mcp and isinstance(item, McpApprovalRequest):
            self._show(index, *self._mcp.show_request(item, self._mcp_name(item), index))
        elif self._serves_mcp and isinstance(item, McpListTools | McpApprovalResponse):
            pass  # the tools are declared by now, and the answer is shown with its request
        else:
            self._omit(item, path(index))

    def _omit(self, item: Item, path: str) -> None:
        """Leave an item out and report it, or raise."""
        kind = item_type(item)
        if not (isinstance(item, HOSTED_ITEMS) or (isinstance(item, OpaqueItem) and ":" in kind)):
            raise _unreadable(item, path)
        text = f"items of type '{kind}' are left out: this model cannot read them"
        self._downgrades.add("input_omitted", text, "input")


def _made_here(item: Item) -> bool:
    """Whether this server has run the tool, so that another one does not know its objects."""
    if isinstance(item, FileSearchCall):
        return found_here(item)
    if isinstance(item, CodeInterpreterCall):
        return is_own_container(item.container_id)
    if isinstance(item, ShellCall):
        environment = item.environment or {}
        return is_own_container(environment.get("container_id"))
    return isinstance(item, WebSearchCall) and searched_here(item)


def _unreadable(item: Item, path: str) -> InvalidRequest:
    if isinstance(item, ItemReference):
        return InvalidRequest(f"The item '{item.id}' was not found.", param=path, code="not_found")
    kind = item_type(item)
    if isinstance(item, Compaction | CompactionTrigger):
        # turn/compaction.py resolves both; dropping one here would lose a history.
        message = f"An item of type '{kind}' cannot be sent to a model as it is."
    else:
        message = f"This model cannot read an item of type '{kind}'. Remove it from 'input'."
    return Unsupported(message, param=path, code="unsupported_item")
