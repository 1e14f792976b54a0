"""What codex knows the client's tools by: their own names, unless codex has taken those for itself."""

from collections.abc import Iterable

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
"""Tools of codex 0.166: a client's tool of such a name is refused, not shown to the model, or run by codex
itself, depending on the model and the configuration."""
_TAKEN_PREFIX = "mcp__"
_ALIAS_PREFIX = "client_"
_LONGEST = 64


class ToolNames:
    """The tools of one turn, by the names that codex knows them by. Clients never see an alias."""

    def __init__(self, tools: Iterable[TurnTool]) -> None:
        declared = {tool.name: tool for tool in tools}
        self.by_alias: dict[str, TurnTool] = {}
        self._aliases: dict[str, str] = {}
        for name, tool in declared.items():
            alias = _alias(name, {*declared, *self.by_alias}) if _is_taken(name) else name
            self._aliases[name] = alias
            self.by_alias[alias] = tool

    def alias(self, name: str) -> str:
        """What codex knows this tool by; a tool that is not declared keeps its name."""
        return self._aliases.get(name, name)


def _is_taken(name: str) -> bool:
    return name in _TAKEN or name.startswith(_TAKEN_PREFIX)


def _alias(name: str, others: set[str]) -> str:
    longest = max(_LONGEST, len(name))
    alias, number = f"{_ALIAS_PREFIX}{name}"[:longest], 1
    while alias in others:
        number += 1
        ending = f"_{number}"
        alias = f"{_ALIAS_PREFIX}{name}"[: longest - len(ending)] + ending
    return alias
