"""Tools as values."""

import dataclasses
from functools import partial

import pytest

from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject
from antiphon.tools.declaration import ServerTool, Tool, ToolNotRunnable
from antiphon.tools.invocation import invoke

EMPTY: JsonObject = {"type": "object", "properties": {}}


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


def test_a_tool_is_created_from_a_function() -> None:
    tool = Tool.from_function(add)
    assert (tool.name, tool.description, tool.run) == ("add", "Add two numbers.", add)
    assert tool.parameters["required"] == ["left", "right"]


def test_name_and_description_can_be_overridden() -> None:
    tool = Tool.from_function(add, name="sum", description="")
    assert (tool.name, tool.description) == ("sum", "")


def test_a_server_tool_is_created_the_same_way_with_its_own_fields() -> None:
    tool = ServerTool.from_function(add, usage="Use it.", side_effects=False, modes=frozenset({"maths"}))
    assert isinstance(tool, ServerTool)
    assert (tool.usage, tool.side_effects, tool.modes) == ("Use it.", False, {"maths"})


def test_a_field_that_the_class_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError, match="usage"):
        Tool.from_function(add, usage="Use it.")


@pytest.mark.parametrize("function", [lambda: "", partial(add, right=1)])
def test_a_function_without_a_name_needs_one(function: object) -> None:
    assert callable(function)
    with pytest.raises(SettingsError, match="pass 'name'"):
        Tool.from_function(function)
    assert Tool.from_function(function, name="named").name == "named"


@pytest.mark.requirement("SEED-004/types-tool")
def test_a_tool_is_declared_with_its_name_description_and_parameters() -> None:
    assert Tool("now", "The time.", EMPTY).declaration() == {
        "type": "function",
        "name": "now",
        "description": "The time.",
        "parameters": EMPTY,
    }


def test_a_strict_tool_is_declared_strict() -> None:
    assert Tool("now", "", EMPTY, strict=True).declaration()["strict"] is True
    assert Tool("now", "", EMPTY, strict=False).declaration()["strict"] is False


def test_how_a_tool_is_called_is_decided_once() -> None:
    tool = Tool.from_function(add)
    assert tool.binding is tool.binding
    assert dataclasses.replace(tool, name="sum").binding is not tool.binding
    assert tool == Tool.from_function(add)


def test_a_tool_that_is_only_declared_cannot_be_called() -> None:
    with pytest.raises(ToolNotRunnable, match="'now' is only declared"):
        _ = Tool("now", "", EMPTY).binding


async def test_an_empty_schema_leaves_validation_to_the_signature() -> None:
    tool = Tool("add", "", {}, run=add)
    tool.check()
    assert tool.declaration()["parameters"] == {"type": "object"}
    assert (await invoke(tool, '{"left": 1, "right": 2}')).output == "3"


async def test_such_a_schema_takes_optional_parameters_and_single_ones_by_name() -> None:
    def tide(harbour: str = "Dover", year: int = 1) -> str:
        return f"{harbour} {year}"

    def high(harbour: str) -> str:
        return harbour

    def same(arguments: JsonObject) -> JsonObject:
        return arguments

    assert (await invoke(Tool("tide", "", {}, run=tide), '{"year": 2}')).output == "Dover 2"
    assert (await invoke(Tool("high", "", {}, run=high), '{"harbour": "Dover"}')).output == "Dover"
    assert (await invoke(Tool("same", "", {}, run=same), '{"a": 1}')).output == '{"a":1}'
