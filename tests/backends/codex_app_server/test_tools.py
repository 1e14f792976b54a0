"""Tools whose names codex reserves for itself."""

from typing import Any

import pytest

from antiphon.backends.codex_app_server.tools import ToolNames
from antiphon.turn.context import TurnTool
from tests.backends.codex_app_server.child_support import LOOK, request_of


def names_of(*names: str) -> ToolNames:
    return ToolNames([TurnTool(name=name, origin=name) for name in names])


@pytest.mark.parametrize(
    "name", ["exec_command", "shell_command", "apply_patch", "mcp", "mcp__files__read", "wait"]
)
def test_a_name_that_codex_has_taken_gets_an_alias(name: str) -> None:
    names = names_of("look", name)
    assert names.alias("look") == "look"
    assert names.alias(name) == f"client_{name}"
    assert names.by_alias[f"client_{name}"].name == name


def test_an_alias_is_unique_and_not_too_long() -> None:
    long = "mcp__" + "x" * 59
    names = names_of("exec_command", "client_exec_command", long, f"{long}y")
    assert names.alias("exec_command") == "client_exec_command_2"
    assert len(names.by_alias) == 4
    assert len(names.alias(long)) == 64
    assert len(names.alias(f"{long}y")) == 65


def test_an_alias_is_used_in_the_declaration_the_history_and_the_prompt() -> None:
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
    ]
    tool = {**LOOK, "name": "exec_command"}
    request = request_of(input=history, tools=[tool], tool_choice="required")
    assert [tool["name"] for tool in request.thread["dynamicTools"]] == ["client_exec_command"]
    assert request.items[1]["name"] == "client_exec_command"
    assert request.thread["developerInstructions"].endswith(": client_exec_command.")
