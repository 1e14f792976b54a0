"""Client tools and their items at the edge: accepted forms, and rejections with their path."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.definitions import examine
from antiphon.protocol.item_lists import list_items
from antiphon.protocol.items import Item
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tool_items import (
    AdditionalTools,
    ComputerCall,
    LocalShellCall,
    LocalShellCallOutput,
    ToolSearchCall,
    ToolSearchOutput,
)
from antiphon.protocol.tools import ApplyPatchTool, HostedTool, ShellTool, ToolRef, ToolSearchTool

FUNCTION: dict[str, Any] = {"type": "function", "name": "f"}
CALL: dict[str, Any] = {"call_id": "c"}


def item(**members: Any) -> Item:
    (found,) = create_from(model="m", input=[members]).items
    return found


def refused(**params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        request = create_from(**{"model": "m", "input": "hi", **params})
        for definition in request.unchecked:
            rejection = examine(definition)
            if rejection is not None:
                raise rejection.error(definition)
    return caught.value


BAD_TOOLS: list[tuple[list[Any], str, str]] = [
    ([{"type": "shell", "environment": {}}], "tools[0].environment.type", "missing_required_parameter"),
    ([{"type": "shell", "environment": {"type": "moon"}}], "tools[0].environment.type", "invalid_value"),
    ([{"type": "shell", "environment": "local"}], "tools[0].environment", "invalid_type"),
    ([{"type": "shell"}, {"type": "shell"}], "tools[1].type", "duplicate_tool_name"),
    ([{"type": "computer_use_preview"}], "tools[0].environment", "missing_required_parameter"),
    ([{"type": "tool_search", "execution": "nobody"}], "tools[0].execution", "invalid_value"),
    ([{"type": "tool_search", "parameters": {"type": "objekt"}}], "tools[0].parameters", "invalid_json_schema"),
    ([{"type": "namespace", "name": "n", "tools": [{**FUNCTION, "parameters": {"type": 5}}]}], "tools[0].tools[0].parameters", "invalid_json_schema"),
    ([{"type": "namespace", "name": "n", "tools": [{"type": "shell"}]}], "tools[0].tools[0].type", "invalid_value"),
    ([{"type": "namespace", "name": "n", "tools": [FUNCTION, {"type": "custom", "name": "f"}]}], "tools[0].tools[1].name", "duplicate_tool_name"),
    ([{"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "start: ("}}], "tools[0].format.definition", "invalid_grammar"),
]  # fmt: skip


@pytest.mark.parametrize(("tools", "param", "code"), BAD_TOOLS)
def test_an_invalid_tool_is_reported_wherever_it_is_declared(tools: list[Any], param: str, code: str) -> None:
    error = refused(tools=tools)
    assert (error.param, error.code, error.status) == (param, code, 400)
    nested = refused(input=[{"role": "user", "content": "x"}, {"type": "additional_tools", "tools": tools}])
    assert (nested.param, nested.code) == (f"input[1].{param}", code)
    found = refused(input=[{"type": "tool_search_output", "tools": tools, **CALL}])
    assert (found.param, found.code) == (f"input[0].{param}", code)


BAD_ITEMS: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "additional_tools"}, "tools", "missing_required_parameter"),
    ({"type": "additional_tools", "tools": {}}, "tools", "invalid_type"),
    ({"type": "tool_search_call", "execution": "client"}, "call_id", "missing_required_parameter"),
    ({"type": "tool_search_call", "arguments": "{", **CALL}, "arguments", "invalid_json"),
    ({"type": "tool_search_call", "arguments": [], **CALL}, "arguments", "invalid_type"),
    ({"type": "tool_search_call", "execution": "x"}, "execution", "invalid_value"),
    ({"type": "shell_call", **CALL}, "action", "missing_required_parameter"),
    ({"type": "shell_call", "action": {"commands": ["ls"]}}, "call_id", "missing_required_parameter"),
    ({"type": "shell_call", "action": {"commands": [5]}, **CALL}, "action.commands[0]", "invalid_type"),
    ({"type": "shell_call", "action": {}, **CALL}, "action.commands", "missing_required_parameter"),
    ({"type": "shell_call_output", **CALL}, "output", "missing_required_parameter"),
    ({"type": "shell_call_output", "output": "x", **CALL}, "output", "invalid_type"),
    ({"type": "shell_call_output", "output": [{"stdout": 5}], **CALL}, "output[0].stdout", "invalid_type"),
    ({"type": "shell_call_output", "output": [{"outcome": {"type": "x"}}], **CALL}, "output[0].outcome.type", "invalid_value"),
    ({"type": "local_shell_call", "action": {"command": "ls"}, **CALL}, "action.command", "invalid_type"),
    ({"type": "local_shell_call_output", "output": "x"}, "call_id", "missing_required_parameter"),
    ({"type": "apply_patch_call", "operation": {"type": "chmod", "path": "a"}, **CALL}, "operation.type", "invalid_value"),
    ({"type": "apply_patch_call", "operation": {"type": "update_file", "path": "a"}, **CALL}, "operation.diff", "missing_required_parameter"),
    ({"type": "apply_patch_call_output", **CALL}, "status", "missing_required_parameter"),
    ({"type": "apply_patch_call_output", "status": "maybe", **CALL}, "status", "invalid_value"),
    ({"type": "computer_call", **CALL}, "action", "missing_required_parameter"),
    ({"type": "computer_call", "actions": [{}], **CALL}, "actions[0].type", "missing_required_parameter"),
    ({"type": "computer_call_output", "output": {"image_url": 5}, **CALL}, "output.image_url", "invalid_type"),
]  # fmt: skip


@pytest.mark.parametrize(("members", "param", "code"), BAD_ITEMS)
def test_an_invalid_member_of_an_item_is_reported(members: dict[str, Any], param: str, code: str) -> None:
    error = refused(input=[members])
    assert (error.param, error.code) == (f"input[0].{param}", code)


def test_tools_of_a_client_are_no_hosted_tools() -> None:
    shell, patch, search, container = create_from(
        model="m",
        input="hi",
        tools=[
            {"type": "shell", "environment": {"type": "local", "skills": [{"name": "s"}]}},
            {"type": "apply_patch", "allowed_callers": ["direct"]},
            {"type": "tool_search"},
            {"type": "shell", "environment": {"type": "container_auto"}},
        ],
    ).tools
    assert isinstance(shell, ShellTool)
    assert isinstance(patch, ApplyPatchTool)
    assert isinstance(search, ToolSearchTool)
    assert not search.by_client
    assert isinstance(container, HostedTool)


def test_declarations_come_back_as_they_were() -> None:
    declared: list[dict[str, Any]] = [
        {"type": "shell", "environment": {"type": "local", "skills": [{"name": "s"}]}},
        {"type": "tool_search", "execution": "client", "description": "d"},
        {"type": "local_shell"},
        {"type": "computer"},
        {"type": "computer_use_preview", "environment": "mac", "display_width": 1, "display_height": 2},
        {"type": "apply_patch"},
    ]
    parsed = create_from(model="m", input="hi", tools=declared).tools
    assert msgspec.to_builtins(list(parsed)) == declared


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "shell"}, ToolRef("shell")),
        ({"type": "computer_use"}, ToolRef("computer_use")),
        ({"type": "tool_search"}, ToolRef("tool_search")),
        ({"type": "namespace", "name": "n"}, ToolRef("namespace", "n")),
        ({"type": "function", "name": "f", "namespace": "n"}, ToolRef("function", "f", namespace="n")),
    ],
)
def test_a_choice_may_name_them(choice: dict[str, Any], expected: ToolRef) -> None:
    assert create_from(model="m", input="hi", tool_choice=choice).tool_choice == expected
    assert refused(tool_choice={"type": "namespace"}).param == "tool_choice.name"


def test_a_local_shell_output_may_name_its_call_by_id() -> None:
    output = item(type="local_shell_call_output", id="call_1", output={"stdout": "x"})
    assert output == LocalShellCallOutput(call_id="call_1", output='{"stdout":"x"}')
    both = item(type="local_shell_call_output", id="lsho_1", call_id="call_1", output="x")
    assert both == LocalShellCallOutput(id="lsho_1", call_id="call_1", output="x")


def test_a_search_has_its_execution() -> None:
    assert item(type="tool_search_call", arguments='{"query":"x"}', call_id="c") == ToolSearchCall(
        call_id="c", execution="client", arguments={"query": "x"}
    )
    assert item(type="tool_search_output", call_id=None, tools=[FUNCTION]) == ToolSearchOutput(
        call_id=None, execution="server", tools=[FUNCTION]
    )


def test_missing_members_with_defaults_are_filled_in() -> None:
    assert item(type="additional_tools", tools=[]) == AdditionalTools(role="developer", tools=[])
    call = item(type="local_shell_call", call_id="c", action={"command": ["ls"]})
    assert isinstance(call, LocalShellCall)
    assert call.action == {"type": "exec", "env": {}, "command": ["ls"]}
    computer = item(type="computer_call", call_id="c", action={"type": "wait"})
    assert isinstance(computer, ComputerCall)
    assert msgspec.to_builtins(computer)["pending_safety_checks"] == []


def test_a_list_shows_the_status_of_calls_and_outputs_of_every_kind() -> None:
    items = create_from(
        model="m",
        input=[
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c", "output": []},
            {"type": "tool_search_output", "call_id": None, "tools": []},
            {"type": "apply_patch_call_output", "call_id": "d", "status": "failed"},
        ],
    ).items
    listed = msgspec.json.decode(msgspec.json.encode(list_items(items)))["data"]
    assert [item["status"] for item in listed] == ["completed", "completed", "completed", "failed"]
    assert listed[2]["execution"] == "server"
    assert listed[2]["call_id"] is None
