"""Declared tools as functions."""

from collections.abc import Sequence

from msgspec import UnsetType

from antiphon.protocol.tools import (
    ClientTool,
    CustomTool,
    FunctionTool,
    NamespaceTool,
    ToolSearchTool,
    tool_type,
)
from antiphon.turn.function_forms.descriptions import FREE_TEXT, described_client_tool, described_custom_tool
from antiphon.turn.tools import ToolKind, TurnTool

_KINDS: dict[str, ToolKind] = {
    "tool_search": "tool_search",
    "apply_patch": "apply_patch",
    "shell": "shell",
    "local_shell": "local_shell",
    "computer": "computer",
    "computer_use_preview": "computer",
}


def function_tool(tool: FunctionTool | CustomTool, name: str, within: NamespaceTool | None) -> TurnTool:
    """A function or custom tool."""
    namespace = None if within is None else within.name
    if isinstance(tool, FunctionTool):
        return TurnTool(
            name=name,
            origin=tool.name,
            namespace=namespace,
            description=tool.description,
            parameters=tool.parameters,
            strict=tool.strict,
            declared=tool,
            within=within,
        )
    return TurnTool(
        name=name,
        origin=tool.name,
        namespace=namespace,
        kind="custom",
        description=described_custom_tool(tool),
        parameters=FREE_TEXT,
        grammar=None if isinstance(tool.format, UnsetType) else tool.format,
        declared=tool,
        within=within,
    )


def client_tool_as_function(tool: ClientTool, name: str, deferred: Sequence[str]) -> TurnTool:
    """A tool that its type identifies."""
    description, parameters = described_client_tool(tool, deferred)
    kind = tool_type(tool)
    return TurnTool(
        name=name,
        origin=kind,
        kind=_KINDS[kind],
        description=description,
        parameters=parameters,
        declared=tool,
    )


def runs_on_server(tool: TurnTool) -> bool:
    """Whether a call of it is answered here: a search for deferred tools."""
    return isinstance(tool.declared, ToolSearchTool) and not tool.declared.by_client
