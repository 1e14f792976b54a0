"""The tools of a turn: those of the request, and those that its history declares.

Tools are declared in the request (`tools`), in an item (`additional_tools`), or in the result of a search
(`tool_search_output`). Two declarations with one name are the same tool: the later one counts. A deferred
tool is hidden from the model until a search has found it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, RequestError, Unsupported
from antiphon.protocol.downgrade import Downgrade, Downgrades
from antiphon.protocol.items import Item
from antiphon.protocol.parse_tools import read_tools
from antiphon.protocol.tool_items import AdditionalTools, ToolSearchOutput
from antiphon.protocol.tools import (
    ClientTool,
    CustomTool,
    FunctionTool,
    HostedTool,
    NamespaceTool,
    Tool,
    ToolSearchTool,
    tool_type,
)
from antiphon.turn.deferred_servers import deferred_servers, found_keys, refers_to_server
from antiphon.turn.function_forms.declared import client_tool_as_function, function_tool
from antiphon.turn.function_forms.descriptions import deferred_names
from antiphon.turn.function_forms.file_searches import DEFAULT_RESULT_TOKENS
from antiphon.turn.tools import (
    MAX_NAME_CHARACTERS,
    HostedForm,
    TurnTool,
    flat_name,
    hosted_tool_as_function,
)

ALL_HOSTED = "*"
"""In `tools.ignore`: all hosted tools."""

_DECLARING_ITEMS = frozenset((AdditionalTools, ToolSearchOutput))
_Key = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    """One tool. `path` is the parameter that declares it."""

    tool: FunctionTool | CustomTool | ClientTool | HostedForm
    path: str
    within: NamespaceTool | None = None
    hidden: bool = False


class HostedToolset(Struct, frozen=True):
    """What becomes of the hosted tools of a request."""

    ignored: frozenset[str] = frozenset()
    """Types that are omitted and reported if no server here runs them."""
    served: frozenset[str] = frozenset()
    """The types that this server runs, whether the request declares them or not."""
    forms: tuple[HostedForm, ...] = ()
    """The functions of the declared tools that this server runs."""
    opened: tuple[HostedTool, ...] = ()
    """The declarations that this server runs, with or without functions."""
    refused: Mapping[str, RequestError] = {}
    """The errors of declared tools that it could not run, by type. They are raised unless the backend's own
    server runs such tools."""
    result_tokens: int = DEFAULT_RESULT_TOKENS
    """Tokens of the results of searches that the model is shown in all."""


NO_HOSTED_TOOLS = HostedToolset()


@dataclass(slots=True)
class Toolbox:
    """The tools of one turn, in the order in which they were declared first."""

    native: frozenset[str]
    toolset: HostedToolset = NO_HOSTED_TOOLS
    functions_only: bool = False
    hosted: list[HostedTool] = field(default_factory=list[HostedTool])
    """The tools that the backend's own server runs."""
    downgrades: Downgrades = field(default_factory=Downgrades)
    """The hosted tools that are omitted because no server here runs them."""
    left_out: list[Downgrade] = field(default_factory=list[Downgrade])
    """The tools that the profile omits because they are not functions."""
    _entries: dict[_Key, _Entry] = field(default_factory=dict[_Key, _Entry])

    def declare(self, tools: Iterable[Tool]) -> None:
        """Add the tools of the request."""
        for index, tool in enumerate(tools):
            self._add(tool, f"tools[{index}]")

    def gather(self, items: Sequence[Item]) -> None:
        """Add the tools that items declare."""
        for tool, item in declared_in(items):
            if (
                isinstance(tool, HostedTool)
                and tool not in self.toolset.opened
                and refers_to_server(tool, item)
            ):
                self._show_found(tool)
            else:
                self._add(tool, "tools", found=isinstance(item, ToolSearchOutput))

    @property
    def deferred(self) -> tuple[Tool, ...]:
        """The tools that a search can find, as they were declared."""
        found: dict[str, list[FunctionTool | CustomTool]] = {}
        namespaces: dict[str, NamespaceTool] = {}
        alone: list[Tool] = []
        forms: list[HostedForm] = []
        for entry in self._entries.values():
            if entry.hidden and isinstance(entry.tool, HostedForm):
                forms.append(entry.tool)
            if not entry.hidden or not isinstance(entry.tool, FunctionTool | CustomTool):
                continue
            if entry.within is None:
                alone.append(entry.tool)
            else:
                namespaces[entry.within.name] = entry.within
                found.setdefault(entry.within.name, []).append(entry.tool)
        groups = (replace(namespaces[name], tools=members) for name, members in found.items())
        return (*alone, *groups, *deferred_servers(forms))

    def turn_tools(self) -> tuple[list[TurnTool], list[TurnTool]]:
        """The tools as functions with unique names: those that are shown, and those that are deferred.

        A backend that searches itself receives the deferred tools, too: then all are shown.
        """
        searching = self._searching()
        taken = {
            entry.tool.name
            for entry in self._entries.values()
            if entry.within is None and isinstance(entry.tool, FunctionTool | CustomTool)
        }
        names = deferred_names(self.deferred)
        shown: list[TurnTool] = []
        hidden: list[TurnTool] = []
        for entry in self._entries.values():
            tool = _turn_tool(entry, taken, names)
            (hidden if entry.hidden and not searching else shown).append(tool)
        return shown, hidden

    def _searching(self) -> bool:
        """Whether the backend searches for deferred tools itself. Raises if there is no search at all."""
        hidden = next((entry for entry in self._entries.values() if entry.hidden), None)
        if hidden is None or "tool_search" in self.native:
            return hidden is not None
        if not any(isinstance(entry.tool, ToolSearchTool) for entry in self._entries.values()):
            raise InvalidRequest(
                "A tool with 'defer_loading' is shown to the model when a search has found it, but there is "
                "no tool that searches. Add {'type': 'tool_search'}, or leave 'defer_loading' out.",
                param=f"{hidden.path}.defer_loading",
                code="invalid_value",
            )
        return False

    def _add(self, tool: Tool, path: str, *, found: bool = False) -> None:
        if self.functions_only and not isinstance(tool, FunctionTool):
            text = f"tool '{tool_type(tool)}' is not a function and was left out"
            self.left_out.append(Downgrade("tool_omitted", text, ("tools",)))
            return
        match tool:
            case NamespaceTool():
                for index, member in enumerate(tool.tools):
                    hidden = not found and (tool.defer_loading is True or member.defer_loading is True)
                    entry = _Entry(member, f"{path}.tools[{index}]", tool, hidden)
                    self._put((tool.name, member.name), entry)
            case HostedTool():
                self._add_hosted(tool, path)
            case FunctionTool() | CustomTool():
                hidden = tool.defer_loading is True and not found and not self.functions_only
                self._put(("", tool.name), _Entry(tool, path, None, hidden))
            case _:
                self._put(("", f"{tool_type(tool)}:"), _Entry(tool, path))

    def _put(self, key: _Key, entry: _Entry) -> None:
        """Add a tool. One that was found stays visible, even if a later request defers it again."""
        known = self._entries.get(key)
        if known is not None and not known.hidden:
            entry.hidden = False
        self._entries[key] = entry

    def _show_found(self, reference: HostedTool) -> None:
        """Show deferred tools of a server that a search has found. Tools of a server that is not declared any
        more stay unknown."""
        for key in found_keys(reference.body):
            if entry := self._entries.get(("", f"{key}:")):
                entry.hidden = False

    def _add_hosted(self, tool: HostedTool, path: str) -> None:
        forms = [form for form in self.toolset.forms if form.declared == tool]
        refused = self.toolset.refused.get(tool.type)
        if tool in self.toolset.opened:
            deferred = tool.body.get("defer_loading") is True
            for form in forms:
                self._put(("", f"{form.key}:"), _Entry(form, path, None, deferred))
            if deferred and "tool_search" in self.native:
                text = "the model's server searches for functions only, so these tools are all shown: {param}"
                self.downgrades.add("not_used", text, f"{path}.defer_loading")
        elif tool.type in self.native:
            if tool not in self.hosted:
                self.hosted.append(tool)
        elif refused is not None:
            raise refused
        elif is_ignored(tool.type, self.toolset.ignored):
            text = f"tool '{tool.type}' is not available here and was left out"
            self.downgrades.add("tool_omitted", text, "tools")
        else:
            raise not_served(tool.type, f"{path}.type")


def declares_tools(items: Sequence[Item]) -> bool:
    """Whether any of the items declares tools."""
    return not _DECLARING_ITEMS.isdisjoint(map(type, items))


def declared_in(items: Sequence[Item]) -> Iterator[tuple[Tool, Item]]:
    """The tools that items declare, each with its item."""
    if declares_tools(items):
        for item in items:
            if isinstance(item, AdditionalTools | ToolSearchOutput):
                yield from ((tool, item) for tool in read_tools(item.tools))


def is_ignored(kind: str, ignored: frozenset[str]) -> bool:
    """Whether a hosted tool of this type is omitted if no server here runs it."""
    return kind in ignored or ALL_HOSTED in ignored


def not_served(kind: str, param: str) -> Unsupported:
    """The error for a hosted tool that no server here runs."""
    return Unsupported(
        f"The tool '{kind}' is not available on this server. Remove it from 'tools', or have the operator "
        f"add '{kind}' to the setting 'tools.ignore' to leave it out.",
        param=param,
        code="unsupported_tool",
    )


def _turn_tool(entry: _Entry, taken: set[str], deferred: Sequence[str]) -> TurnTool:
    tool = entry.tool
    if isinstance(tool, FunctionTool | CustomTool):
        name = tool.name if entry.within is None else _free(flat_name(entry.within.name, tool.name), taken)
        shown = function_tool(tool, name, entry.within)
    elif isinstance(tool, HostedForm):
        name = _free(tool.name, taken)
        shown = hosted_tool_as_function(tool, name)
    else:
        name = _free(tool_type(tool), taken)
        shown = client_tool_as_function(tool, name, deferred)
    taken.add(name)
    return shown


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if another tool has it."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name[: MAX_NAME_CHARACTERS - 4]}_{number}"
    return candidate
