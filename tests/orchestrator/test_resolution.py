"""Context resolution: modes, tools, prompts."""

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.models import ActiveFile, AgentExecuteRequest, ConversationContext
from antiphon.orchestrator.modes import BUILT_IN, CHANGE_MODE, Mode, Modes, mode_tool
from antiphon.orchestrator.resolution import Chain, Plan, check_choice, mode_block, resolve, tool_name
from antiphon.orchestrator.tool import ServerTool
from antiphon.protocol.content import JsonObject
from antiphon.tools.registry import ToolRegistry

GENERAL = Mode(key="general", when_to_use="Anything else.")
CODE = Mode(
    key="code",
    when_to_use="The user wants code.",
    instructions=("Write tests first.", "Keep it short."),
    tools=("build",),
    tool_choice="build",
)
MODES = Modes([GENERAL, CODE])


def tool(name: str, usage: str = "") -> ServerTool:
    return ServerTool(name, f"The tool {name}.", {"type": "object"}, lambda: None, usage=usage)


REGISTRY = ToolRegistry([tool("build", "Build often."), tool("look"), mode_tool(MODES)])


def plan(registry: ToolRegistry = REGISTRY, chain: Chain | None = None, **fields: object) -> Plan:
    request = AgentExecuteRequest(**{"instruction": "Do it.", **fields})  # pyright: ignore[reportArgumentType]
    return resolve(request, ConversationContext(system="Be good."), registry, MODES, chain)


def declared(resolved: Plan) -> list[str]:
    return [tool_name(each) for each in resolved.tools or ()]


def test_without_a_mode_the_default_holds() -> None:
    resolved = plan()
    assert (resolved.mode, resolved.request.mode, resolved.warnings) == (GENERAL, "general", ())


def test_a_mode_preserves_the_clients_spelling() -> None:
    resolved = plan(mode="CODE")
    assert (resolved.mode, resolved.request.mode) == (CODE, "CODE")


def test_an_unknown_mode_is_the_default_with_a_warning() -> None:
    resolved = plan(mode="QA")
    assert (resolved.mode, resolved.request.mode) == (GENERAL, "general")
    assert resolved.warnings == ("Unknown mode 'QA': 'general' is used. Known: general, code.",)


def test_the_system_prompt_has_layers() -> None:
    system = plan(mode="code").context.system
    assert system.startswith("Be good.\n\nWrite tests first.\n\nKeep it short.\n\nCurrent Mode: code\n")


def test_the_list_of_modes_has_its_form() -> None:
    lines = mode_block(CODE, MODES).splitlines()
    assert lines[:7] == [
        "Current Mode: code",
        "",
        "Available Modes:",
        "- general: Anything else.",
        "- code: The user wants code.",
        "",
        "Mode Switching:",
    ]
    assert len(lines) == 10
    assert all(line.startswith("- ") for line in lines[7:])
    assert CHANGE_MODE in lines[7]


def test_the_modes_are_not_listed_where_the_model_cannot_switch() -> None:
    assert plan(ToolRegistry([tool("build")])).context.system == "Be good."


def test_a_request_that_brings_files_and_names_no_mode_changes_files() -> None:
    files = (ActiveFile(relative_path="a.py", contents="x = 1"),)
    for mode, expected in ((None, "code_edit"), ("  ", "code_edit"), ("general", "general")):
        request = AgentExecuteRequest(instruction="Do it.", mode=mode, active_files=files)
        resolved = resolve(request, ConversationContext(), ToolRegistry(), Modes(BUILT_IN))
        assert resolved.mode.key == expected
    own = Modes([*BUILT_IN, CODE], default="code")
    request = AgentExecuteRequest(instruction="Do it.", active_files=files)
    assert resolve(request, ConversationContext(), REGISTRY, own).mode is CODE


def test_a_mode_offers_its_tools_and_the_switch() -> None:
    assert list(plan(mode="code").offered) == ["build", CHANGE_MODE]
    assert list(plan().offered) == ["build", "look", CHANGE_MODE]


def test_server_tools_and_client_tools_become_one_list() -> None:
    resolved = plan(mode="code", tools_json='[{"type":"function","name":"open_tab"}]')
    assert declared(resolved) == ["build", CHANGE_MODE, "open_tab"]
    assert resolved.client_tools == {"open_tab"}


def test_the_server_s_tool_wins_over_the_client_s_of_the_same_name() -> None:
    resolved = plan(tools_json='[{"type":"function","name":"build","description":"mine"}]')
    assert declared(resolved).count("build") == 1
    assert resolved.client_tools == frozenset()
    assert resolved.warnings == (
        "The client's tool 'build' has the name of a server tool: the server's is used.",
    )


def test_a_client_tool_named_like_a_tool_of_another_mode_is_omitted() -> None:
    resolved = plan(mode="code", tools_json='[{"type":"function","function":{"name":"look"}}]')
    assert "look" not in str(resolved.tools)
    assert resolved.warnings == ("The client's tool 'look' has the name of a server tool: it is left out.",)


def test_hosted_tools_of_the_client_are_sent() -> None:
    resolved = plan(mode="code", tools_json='[{"type":"web_search"}]')
    assert list(resolved.tools or ())[-1] == {"type": "web_search"}
    assert resolved.client_tools == frozenset()


@pytest.mark.parametrize("text", ["{", "{}", "7"])
def test_client_tools_that_are_no_array_are_omitted_with_a_warning(text: str) -> None:
    resolved = plan(tools_json=text)
    assert declared(resolved) == ["build", "look", CHANGE_MODE]
    assert resolved.warnings == ("The client's tools are left out: toolsJson is not a JSON array.",)


def test_without_any_tools_no_tools_are_sent() -> None:
    assert plan(ToolRegistry()).tools is None


def test_the_clients_tool_choice_overrides_the_modes() -> None:
    assert plan(mode="code").request.tool_choice_name == "build"
    assert plan(mode="code", tool_choice_name="look").request.tool_choice_name == "look"


def test_results_without_an_instruction_do_not_force_a_call_again() -> None:
    assert plan(mode="code", instruction=None).request.tool_choice_name is None


def test_a_choice_of_an_unavailable_tool_is_dropped_with_a_warning() -> None:
    resolved = plan(ToolRegistry([tool("look")]), mode="code")
    assert resolved.request.tool_choice_name is None
    assert resolved.warnings == (
        "The mode 'code' names tools that do not exist: build.",
        "The mode 'code' requires a call of 'build', but neither the server nor the client offers it.",
    )


def test_a_client_may_bring_the_tool_of_a_mode() -> None:
    resolved = plan(ToolRegistry(), mode="code", tools_json='[{"type":"function","name":"build"}]')
    assert (resolved.request.tool_choice_name, resolved.warnings) == ("build", ())


def test_new_tools_are_sent_with_the_clients_earlier_tools() -> None:
    old = [{"type": "function", "name": name} for name in ("look", CHANGE_MODE, "open_page")]
    resolved = plan(mode="code", chain=Chain([*old, {"type": "web_search"}]))
    assert [tool_name(tool) for tool in resolved.tools or ()] == ["build", CHANGE_MODE, "open_page", ""]
    assert (resolved.request.tool_choice_name, resolved.warnings) == ("build", ())


def test_known_tools_are_not_sent_again() -> None:
    known = [{**tool, "strict": None} for tool in REGISTRY.schemas(REGISTRY.for_mode(GENERAL))]
    assert plan(mode="code", chain=Chain(known)).tools is None
    assert plan(mode="code", chain=Chain(known, "code")).tools is None
    assert plan(mode="code", response_continuation_id="resp_1").tools is None


def test_a_redeclared_tool_replaces_the_old_one() -> None:
    old = [*REGISTRY.schemas(REGISTRY.for_mode(GENERAL)), {"type": "function", "name": "a"}]
    new: JsonObject = {"type": "function", "name": "a", "description": "Better."}
    resolved = plan(chain=Chain(old), tools_json=msgspec.json.encode([new]).decode())
    assert [tool for tool in resolved.tools or () if tool_name(tool) == "a"] == [new]


def test_a_hosted_tool_is_new_once() -> None:
    hosted: JsonObject = {"type": "web_search"}
    known = REGISTRY.schemas(REGISTRY.for_mode(GENERAL))
    hosted_json = msgspec.json.encode([hosted]).decode()
    assert hosted in (plan(chain=Chain(known), tools_json=hosted_json).tools or ())
    assert plan(chain=Chain([*known, hosted]), tools_json=hosted_json).tools is None
    more = msgspec.json.encode([hosted, {"type": "function", "name": "b"}]).decode()
    resent = plan(chain=Chain([*known, hosted]), tools_json=more).tools or ()
    assert list(resent).count(hosted) == 1


def test_a_new_mode_is_announced_with_its_layers_and_removes_tools() -> None:
    known = REGISTRY.schemas(REGISTRY.for_mode(GENERAL))
    resolved = plan(mode="code", chain=Chain(known, "general"))
    assert [tool_name(tool) for tool in resolved.tools or ()] == ["build", CHANGE_MODE]
    assert resolved.mode_change.startswith("From now on the mode is 'code'.")
    assert "Write tests first." in resolved.mode_change
    assert "Build often." in resolved.mode_change
    assert plan(mode="code", chain=Chain(known, "code")).mode_change == ""
    assert plan(mode="code").mode_change == ""


def test_the_usage_block_describes_the_modes_tools() -> None:
    block = plan(mode="code").usage_block
    assert "name='build'" in block
    assert "Build often." in block
    assert "name='look'" not in block


def test_an_invalid_scope_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        plan(rag_scope_filter={"must": 7})
    assert refusal.value.param == "ragScopeFilter.must"


def test_the_scope_of_the_client_narrows_that_of_the_mode() -> None:
    def only(language: str) -> dict[str, object]:
        return {"must": [{"key": "language", "match": {"value": language}}]}

    mode = Mode(key="general", when_to_use="Always.", rag_scope=only("python"))
    request = AgentExecuteRequest(instruction="Do it.", rag_scope_filter=only("go"))
    resolved = resolve(request, ConversationContext(), ToolRegistry(), Modes([mode]))
    assert not resolved.scope.admits({"language": "python"})
    assert not resolved.scope.admits({"language": "go"})


def test_the_request_is_not_modified() -> None:
    request = AgentExecuteRequest(instruction="Do it.", mode="QA", tools_json="[]")
    resolve(request, ConversationContext(), REGISTRY, Modes(BUILT_IN))
    assert request == AgentExecuteRequest(instruction="Do it.", mode="QA", tools_json="[]")


@pytest.mark.parametrize(
    ("fields", "passes"),
    [
        ({}, True),
        ({"tool_choice_name": " "}, True),
        ({"tool_choice_name": "look"}, True),
        ({"tool_choice_name": "look", "mode": "code"}, False),
        ({"tool_choice_name": CHANGE_MODE, "mode": "code"}, True),
        ({"tool_choice_name": "mine"}, False),
        ({"tool_choice_name": "mine", "tools_json": '[{"name": "mine"}]'}, True),
        ({"tool_choice_name": "look", "mode": "code", "tools_json": '[{"name": "look"}]'}, False),
        ({"tool_choice_name": "mine", "response_continuation_id": "resp_1"}, True),
        ({"tool_choice_name": "mine", "response_continuation_id": " "}, False),
    ],
)
def test_an_available_tool_can_be_forced(fields: dict[str, str], passes: bool) -> None:
    request = AgentExecuteRequest(instruction="Do it.", **fields)  # pyright: ignore[reportArgumentType]
    if passes:
        check_choice(request, REGISTRY, MODES)
        return
    with pytest.raises(InvalidRequest) as caught:
        check_choice(request, REGISTRY, MODES)
    assert (caught.value.param, caught.value.code) == ("tool_choice_name", "unknown_tool")
