"""The client's tools in codex's terms: declarations, arguments, outputs."""

from collections.abc import Iterable
from typing import Any

from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.turn.context import TurnTool

_TAKEN = frozenset(
    {
        "apply_patch",
        "create_goal",
        "exec",
        "exec_command",
        "get_goal",
        "list_mcp_resource_templates",
        "list_mcp_resources",
        "mcp",
        "multi_agent_v1",
        "read_mcp_resource",
        "request_user_input",
        "request_user_input_async",
        "shell_command",
        "tool_search",
        "update_goal",
        "view_image",
        "wait",
        "web_search",
        "write_stdin",
    }
)
"""Tools of codex 0.166. A client's tool with such a name is rejected, hidden from the model, or run by codex
itself, depending on the model and the configuration."""
_TAKEN_PREFIX = "mcp__"
_ALIAS_PREFIX = "client_"
_MAX_NAME_CHARACTERS = 64


class ToolNames:
    """The tools of one turn, by their names in codex. Clients never see an alias."""

    def __init__(self, tools: Iterable[TurnTool]) -> None:
        declared = {tool.name: tool for tool in tools}
        self.by_alias: dict[str, TurnTool] = {}
        self._aliases: dict[str, str] = {}
        for name, tool in declared.items():
            alias = _alias(name, {*declared, *self.by_alias}) if _is_taken(name) else name
            self._aliases[name] = alias
            self.by_alias[alias] = tool

    def alias(self, name: str) -> str:
        """The name of a tool in codex; an undeclared tool has its own name."""
        return self._aliases.get(name, name)


def _is_taken(name: str) -> bool:
    return name in _TAKEN or name.startswith(_TAKEN_PREFIX)


def _alias(name: str, others: set[str]) -> str:
    longest = max(_MAX_NAME_CHARACTERS, len(name))
    alias, number = f"{_ALIAS_PREFIX}{name}"[:longest], 1
    while alias in others:
        number += 1
        ending = f"_{number}"
        alias = f"{_ALIAS_PREFIX}{name}"[: longest - len(ending)] + ending
    return alias


_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


def tool_spec(tool: TurnTool, alias: str, downgrades: Downgrades) -> JsonObject:
    """The declaration of a tool."""
    if tool.strict:
        downgrades.add("not_enforced", "'strict' of tools is not sent: codex does not take it", "tools")
    if tool.grammar is not None and tool.grammar.type == "grammar":
        downgrades.add(
            "not_enforced",
            f"the grammar of the custom tool '{tool.origin}' is described to the model, not enforced",
            "tools",
        )
    return {
        "type": "function",
        "name": alias,
        "description": tool.description or "",
        "inputSchema": _NO_PARAMETERS if tool.parameters is None else tool.parameters,
    }


def tool_result(output: Any) -> JsonObject:
    """A tool output in the form that codex wants it in."""
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
    return {"success": True, "contentItems": [_result_part(part) for part in parts]}


def _result_part(part: JsonObject) -> JsonObject:
    if part["type"] == "input_image":
        return {"type": "inputImage", "imageUrl": part["image_url"]}
    return {"type": "inputText", "text": part["text"]}
