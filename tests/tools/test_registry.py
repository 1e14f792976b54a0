"""The server's tools, by name."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import SettingsError
from antiphon.orchestrator.modes import Mode
from antiphon.protocol.content import JsonObject
from antiphon.tools.declaration import ServerTool, Tool
from antiphon.tools.registry import ToolRegistry, load_tools

EMPTY: JsonObject = {"type": "object", "properties": {}}
GENERAL = Mode(key="general", when_to_use="Always.")


def run() -> str:
    return "done"


def server_tool(name: str, **fields: Any) -> ServerTool:
    return ServerTool(name, "", EMPTY, run, **fields)


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


def test_tools_are_found_by_name_in_the_order_of_their_registration() -> None:
    registry = ToolRegistry([server_tool("b"), server_tool("a")])
    assert registry.names == ("b", "a")
    assert "a" in registry
    assert "c" not in registry
    assert registry.get("b") == server_tool("b")
    assert registry.get("c") is None


def test_a_plain_tool_and_a_function_become_server_tools() -> None:
    registry = ToolRegistry([Tool("plain", "What it does.", EMPTY, run, strict=True), add])
    assert registry.get("plain") == ServerTool("plain", "What it does.", EMPTY, run, strict=True)
    assert registry.get("add") == ServerTool.from_function(add)


@pytest.mark.parametrize("name", ["", " ", "two words", "a.b", "é", "a\n", "x" * 65])
def test_a_misnamed_tool_is_rejected(name: str) -> None:
    with pytest.raises(SettingsError, match="invalid name") as caught:
        ToolRegistry([server_tool(name)])
    assert caught.value.param == "name"


def test_a_name_may_be_64_characters_long() -> None:
    assert ToolRegistry([server_tool("aZ09_-".ljust(64, "x"))]).names


@pytest.mark.parametrize("parameters", [{"type": "string"}, {"type": "object", "properties": []}])
def test_parameters_that_are_no_object_are_rejected(parameters: JsonObject) -> None:
    with pytest.raises(SettingsError, match="parameters of the tool 'odd'") as caught:
        ToolRegistry([ServerTool("odd", "", parameters, run)])
    assert caught.value.param == "parameters"


def test_a_second_tool_of_the_same_name_is_rejected_and_the_first_remains() -> None:
    registry = ToolRegistry([server_tool("one", usage="first")])
    with pytest.raises(SettingsError, match="two tools 'one'"):
        registry.register(server_tool("one", usage="second"))
    found = registry.get("one")
    assert found is not None
    assert found.usage == "first"


def test_a_tool_that_cannot_be_called_is_rejected() -> None:
    def nameless(left: int, right: int, /) -> int:
        return left + right

    with pytest.raises(SettingsError, match="'add' needs 'left', which"):
        ToolRegistry([Tool("add", "", EMPTY, add)])
    with pytest.raises(SettingsError, match="'idle' has no function to run"):
        ToolRegistry([Tool("idle", "", EMPTY)])
    with pytest.raises(SettingsError, match="positional-only"):
        ToolRegistry([ServerTool("nameless", "", EMPTY, nameless)])


def test_a_client_tool_needs_no_function() -> None:
    assert ToolRegistry([ServerTool("open_file", "", EMPTY, final="client")]).names == ("open_file",)


def test_a_mode_offers_the_tools_that_are_not_bound_to_others() -> None:
    registry = ToolRegistry(
        [
            server_tool("free"),
            server_tool("mine", modes=frozenset({"general"})),
            server_tool("theirs", modes=frozenset({"other"})),
        ]
    )
    assert [tool.name for tool in registry.for_mode(GENERAL)] == ["free", "mine"]
    assert registry.missing(GENERAL) == []


def test_a_mode_that_chooses_its_tools_offers_exactly_those() -> None:
    registry = ToolRegistry([server_tool("a"), server_tool("b", modes=frozenset({"other"}))])
    mode = Mode(key="picky", when_to_use="Now.", tools=("b", "gone"))
    assert [tool.name for tool in registry.for_mode(mode)] == ["b"]
    assert registry.missing(mode) == ["gone"]
    assert registry.for_mode(Mode(key="silent", when_to_use="Now.", tools=())) == []


def test_tools_are_declared_in_order() -> None:
    registry = ToolRegistry([server_tool("a"), server_tool("b", strict=True)])
    plain, strict = registry.schemas(registry.for_mode(GENERAL))
    assert plain == {"type": "function", "name": "a", "description": "", "parameters": EMPTY}
    assert (strict["name"], strict["strict"]) == ("b", True)


def test_only_tools_with_guidance_are_in_the_usage_block() -> None:
    registry = ToolRegistry(
        [server_tool("a", usage="Call it."), server_tool("b", usage=" "), server_tool("c")]
    )
    assert registry.usage(registry.for_mode(GENERAL)) == [("a", "Call it.")]


MODULE = """
from antiphon.orchestrator.tool import ServerTool, Tool
EMPTY = {"type": "object", "properties": {}}
def shout(text: str) -> str:
    "Say it loudly."
    return text.upper()
async def whisper(text: str) -> str:
    return text.lower()
plain = Tool("plain", "", EMPTY, run=lambda: "plain")
server = ServerTool("server", "", EMPTY, run=lambda: "server", usage="Use it.")
several = [plain, server, shout]
number = 5
mixed = (plain, 5)
idle = Tool("idle", "", EMPTY)
def untyped(text): return text
class Box:
    inside = plain
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module in the current folder, which is not on the path."""
    (tmp_path / "own_tools.py").write_text(MODULE)
    (tmp_path / "broken_tools.py").write_text("raise RuntimeError('not today')")
    (tmp_path / "leaving_tools.py").write_text("import sys; sys.exit('bye')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("own_tools", "broken_tools", "leaving_tools"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("module")
def test_tools_are_loaded_from_the_users_modules() -> None:
    specs = ["own_tools:shout", "own_tools:whisper", "own_tools:several", "own_tools:Box.inside"]
    tools = load_tools(specs)
    assert [tool.name for tool in tools] == ["shout", "whisper", "plain", "server", "shout", "plain"]
    assert all(isinstance(tool, ServerTool) for tool in tools)
    assert (tools[0].description, tools[3].usage) == ("Say it loudly.", "Use it.")


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("own_tools", "not of the form 'module:name'"),
        (":shout", "not of the form 'module:name'"),
        ("own_tools:", "not of the form 'module:name'"),
        ("no_such_module:shout", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("broken_tools:shout", "RuntimeError: not today"),
        ("leaving_tools:shout", "importing 'leaving_tools' failed with SystemExit: bye"),
        ("own_tools:scream", "'own_tools' has no 'scream'"),
        ("own_tools:Box.outside", "has no 'Box.outside'"),
        ("own_tools:number", "is of type int"),
        ("own_tools:mixed", "is of type int"),
        ("own_tools:Box", "is of type type"),
        ("own_tools:idle", "no function to run"),
        ("own_tools:untyped", "no annotation"),
    ],
)
def test_a_tool_that_cannot_be_loaded_is_reported_with_the_reason(spec: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_tools([spec])
    assert why in caught.value.message
    assert spec.rpartition(":")[2] in caught.value.message


def test_a_tool_of_some_tenants_does_not_exist_for_others() -> None:
    def mine() -> None: ...
    def shared() -> None: ...

    registry = ToolRegistry([ServerTool.from_function(mine, tenants=frozenset({"acme"})), shared])
    assert registry.for_tenant("acme").names == ("mine", "shared")
    assert registry.for_tenant("other").names == ("shared",)
    assert registry.for_tenant("").names == ("mine", "shared")
