"""Tools and the choice among them, for the upstream, and the upstream's names of tools in its answer.

A tool of a type that the upstream supports is declared as the caller declared it, in its namespace. All
others are functions (`turn/function_forms/`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from antiphon.backends.registry import Endpoint
from antiphon.errors import Unsupported
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.file_search import FILE_SEARCH, short_declaration
from antiphon.protocol.items import Item
from antiphon.protocol.parse_tools import read_tools
from antiphon.protocol.tool_items import ToolSearchOutput
from antiphon.protocol.tools import HostedTool, NamespaceTool, declaration, tool_type
from antiphon.turn.context import TurnRequest, TurnTool
from antiphon.turn.function_forms.outputs import tool_names
from antiphon.turn.tools import ToolKind

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


class Names(NamedTuple):
    """The upstream's names of the tools, and those of the machine."""

    callable: Mapping[tuple[str, str], str]
    """Functions and custom tools, by namespace and name."""
    typed: Mapping[str, str]
    """Tools that are known by their kind alone."""

    def of_call(self, namespace: str | None, name: str) -> str:
        """A tool that is called by its name; an unknown one is returned as it is."""
        return self.callable.get((namespace or "", name)) or name

    def of_kind(self, kind: ToolKind) -> str:
        """A tool that is called by its type."""
        return self.typed.get(kind) or kind


def names_of(turn: TurnRequest, natives: frozenset[str]) -> Names:
    """How calls in the answer are to be understood."""
    called: dict[tuple[str, str], str] = {}
    typed: dict[str, str] = {}
    for tool in turn.tools:
        if not _is_native(tool, natives):
            called["", tool.name] = tool.name
        elif tool.kind in ("function", "custom"):
            called[tool.namespace or "", tool.origin] = tool.name
        else:
            typed[tool.kind] = tool.name
    return Names(called, typed)


def declared_tools(turn: TurnRequest, endpoint: Endpoint, downgrades: Downgrades) -> list[JsonObject]:
    """The tools that the model sees."""
    groups: dict[str, JsonObject] = {}
    declared: list[JsonObject] = []
    loaded = _loaded(turn.items)
    for tool in turn.tools:
        if _is_native(tool, endpoint.natives) and tool.declared is not None:
            if (tool.namespace or "", tool.origin) in loaded:
                continue
            body = declaration(tool.declared)
            if tool.within is None:
                declared.append(body)
            else:
                _group(tool.within, groups, declared)["tools"].append(body)
        else:
            declared.append(_function(tool, endpoint, downgrades))
    return [*declared, *(_hosted(tool, downgrades) for tool in turn.hosted)]


def tool_choice(turn: TurnRequest, endpoint: Endpoint) -> JsonObject | str | None:
    """The choice; None where it equals the default."""
    chosen = turn.choice
    if chosen in ("auto", "none"):
        return None  # with "none" the model is shown no tools
    if isinstance(chosen, TurnTool) and endpoint.quirks.tool_choice == "named":
        if not _is_native(chosen, endpoint.natives):
            return {"type": "function", "name": chosen.name}
        if chosen.kind in ("function", "custom") and chosen.namespace is None:
            return {"type": chosen.kind, "name": chosen.origin}
    # A tool that must be called is the only one that is shown, so "required" is equivalent.
    return "required"


def _is_native(tool: TurnTool, natives: frozenset[str]) -> bool:
    if tool.declared is None or (tool.namespace is not None and "namespace" not in natives):
        return False
    return tool_type(tool.declared) in natives


def _loaded(items: Iterable[Item]) -> set[tuple[str, str]]:
    """Tools that a search of the client has found: the upstream reads them there, and not twice."""
    found: set[tuple[str, str]] = set()
    for item in items:
        if isinstance(item, ToolSearchOutput) and item.execution == "client":
            for tool in read_tools(item.tools):
                if isinstance(tool, NamespaceTool):
                    found |= {(tool.name, member.name) for member in tool.tools}
                else:
                    found |= {("", name) for name in tool_names([declaration(tool)])}
    return found


def _group(within: NamespaceTool, groups: dict[str, JsonObject], declared: list[JsonObject]) -> JsonObject:
    if within.name not in groups:
        groups[within.name] = {**declaration(within), "tools": []}
        declared.append(groups[within.name])
    return groups[within.name]


def _function(tool: TurnTool, endpoint: Endpoint, downgrades: Downgrades) -> JsonObject:
    strict = tool.strict if tool.kind == "function" else False
    if strict and not endpoint.quirks.strict_tools:
        downgrades.add(
            "not_enforced",
            "'strict' of tools may not be enforced: little is known about this model's server",
            "tools",
        )
    if tool.grammar is not None and tool.grammar.type == "grammar":
        downgrades.add(
            "not_enforced",
            f"the grammar of the custom tool '{tool.origin}' is described to the model, not enforced",
            "tools",
        )
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": _NO_PARAMETERS if tool.parameters is None else tool.parameters,
        "strict": strict,
    }


def _hosted(tool: HostedTool, downgrades: Downgrades) -> JsonObject:
    if tool.type == "shell":
        raise Unsupported(
            "A shell in a container is not available here. Use {'type': 'shell', 'environment': "
            "{'type': 'local'}} and run the commands yourself.",
            param="tools",
            code="unsupported_tool",
        )
    if tool.body.get("partial_images"):
        downgrades.add(
            "output_omitted", "partial images are not shown: an image is shown when it is complete", "tools"
        )
    return short_declaration(tool.complete) if tool.type == FILE_SEARCH else tool.complete
