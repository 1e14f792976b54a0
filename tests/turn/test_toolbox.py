"""The tools of a turn, wherever they were declared, and the effect of the tool choice."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.profile import MAESTRO
from antiphon.protocol.tools import NamespaceTool
from antiphon.turn.context import FUNCTIONS, TurnRequest, TurnTool, build_turn
from antiphon.turn.toolbox import HostedToolset

HI = {"role": "user", "content": "hi"}
SEARCH = {"type": "tool_search"}
BUILT_IN: list[dict[str, Any]] = [
    {"type": "shell"},
    {"type": "apply_patch"},
    {"type": "local_shell"},
    {"type": "computer"},
    {"type": "tool_search", "execution": "client"},
]


def function(name: str, **members: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, **members}


def namespace(name: str, *tools: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": "d", "tools": list(tools), **members}


def additional(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools)}


def search(*tools: dict[str, Any], call_id: str | None = "s1") -> list[dict[str, Any]]:
    return [
        {"type": "tool_search_call", "call_id": call_id, "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": call_id, "tools": list(tools)},
    ]


def turn(*items: dict[str, Any], native: frozenset[str] = FUNCTIONS, **params: Any) -> TurnRequest:
    ignored: frozenset[str] = params.pop("ignored", frozenset())
    request = create_from(model="m", input=[*items, HI], **params)
    return build_turn(request, model="up", hosted=HostedToolset(ignored=ignored), native=native)


def names(request: TurnRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def refused(*items: dict[str, Any], **params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        turn(*items, **params)
    return caught.value


def test_a_tool_of_every_kind_is_a_function_with_a_description() -> None:
    request = turn(tools=BUILT_IN)
    assert [(tool.name, tool.kind) for tool in request.tools] == [
        (tool["type"], tool["type"]) for tool in BUILT_IN
    ]
    for tool in request.tools:
        assert tool.description
        assert tool.parameters
        assert tool.parameters["type"] == "object"
    assert rendered(request.downgrades) == [
        f"the tool '{tool['type']}' is shown to the model as a function" for tool in BUILT_IN
    ]


def test_native_tools_are_not_reported() -> None:
    request = turn(tools=BUILT_IN, native=frozenset({"function", "shell", "apply_patch"}))
    assert len(request.downgrades) == 3
    assert not any("shell'" in note and "local" not in note for note in rendered(request.downgrades))


def test_a_computer_tool_describes_its_screen() -> None:
    screen = {"environment": "browser", "display_width": 1024, "display_height": 768}
    (tool,) = turn(tools=[{"type": "computer_use_preview", **screen}]).tools
    assert (tool.kind, tool.origin) == ("computer", "computer_use_preview")
    assert "browser" in str(tool.description)
    assert "1024 x 768" in str(tool.description)


def test_a_clients_tool_search_has_its_own_parameters() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    own = {"type": "tool_search", "execution": "client", "description": "Find.", "parameters": schema}
    (tool,) = turn(tools=[own]).tools
    assert (tool.description, tool.parameters) == ("Find.", schema)
    (plain,) = turn(tools=[{"type": "tool_search", "execution": "client"}]).tools
    assert plain.parameters is not None
    assert plain.parameters["properties"].keys() == {"query", "limit"}


def test_a_declared_name_is_never_taken_by_another_tool() -> None:
    request = turn(
        tools=[namespace("a", function("b")), {"type": "shell"}, function("a__b"), function("shell")]
    )
    flat = [(tool.name, tool.namespace, tool.kind) for tool in request.tools]
    assert flat == [
        ("a__b_2", "a", "function"),
        ("shell_2", None, "shell"),
        ("a__b", None, "function"),
        ("shell", None, "function"),
    ]


def test_equal_names_in_two_namespaces_are_two_tools() -> None:
    request = turn(tools=[namespace("a", function("x")), namespace("b", function("x")), function("x")])
    assert names(request) == ["a__x", "b__x", "x"]


def test_a_tool_carries_its_declaration_and_namespace() -> None:
    member, standalone = turn(tools=[namespace("a", function("x")), {"type": "shell"}]).tools
    assert isinstance(member.within, NamespaceTool)
    assert member.within.description == "d"
    assert member.declared is not None
    assert standalone.within is None


@pytest.mark.requirement("PROTOCOL/tools-additional")
def test_tools_may_be_declared_only_in_the_conversation() -> None:
    request = turn(additional(namespace("functions", {"type": "custom", "name": "exec"}), function("f")))
    assert names(request) == ["functions__exec", "f"]
    assert [tool.kind for tool in request.tools] == ["custom", "function"]
    assert [request.param(index) for index in range(len(request.items))] == ["input[1]"]
    assert request.downgrades == ()


@pytest.mark.requirement("PROTOCOL/tools-additional")
def test_the_later_declaration_replaces_the_earlier_in_place() -> None:
    request = turn(
        additional(function("f", description="old"), function("g")),
        additional(function("f", description="new")),
        tools=[function("f", description="oldest"), function("h")],
    )
    assert names(request) == ["f", "h", "g"]
    assert request.tools[0].description == "new"


@pytest.mark.requirement("PROTOCOL/tools-defer-loading")
def test_deferred_tools_are_hidden_until_they_are_found() -> None:
    crm = namespace("crm", function("list", defer_loading=True), function("get", defer_loading=True))
    tools = [SEARCH, function("now"), function("later", defer_loading=True), crm]
    request = turn(tools=tools)
    assert names(request) == ["tool_search", "now"]
    assert [getattr(tool, "name", "") for tool in request.deferred] == ["later", "crm"]
    assert "later, crm.list, crm.get" in str(request.tools[0].description)
    found = turn(*search(namespace("crm", function("get", defer_loading=True)), call_id=None), tools=tools)
    assert names(found) == ["tool_search", "now", "crm__get"]
    assert "crm.get" not in str(found.tools[0].description)


@pytest.mark.requirement("PROTOCOL/tools-defer-loading")
def test_a_complete_namespace_may_be_deferred() -> None:
    request = turn(tools=[SEARCH, namespace("crm", function("list"), defer_loading=True)])
    assert names(request) == ["tool_search"]


@pytest.mark.requirement("PROTOCOL/tools-search-client")
def test_a_client_search_may_return_undeclared_tools() -> None:
    tools = [{"type": "tool_search", "execution": "client"}]
    request = turn(*search(namespace("crm", function("get"))), tools=tools)
    assert names(request) == ["tool_search", "crm__get"]
    assert request.deferred == ()


@pytest.mark.requirement("PROTOCOL/tools-defer-loading")
def test_a_deferred_tool_without_a_search_is_rejected() -> None:
    error = refused(tools=[function("a"), function("b", defer_loading=True)])
    assert (error.param, error.code) == ("tools[1].defer_loading", "invalid_value")
    assert "tool_search" in error.message
    inner = refused(tools=[namespace("n", function("b", defer_loading=True))])
    assert inner.param == "tools[0].tools[0].defer_loading"


def test_a_server_that_searches_itself_is_shown_everything() -> None:
    tools = [SEARCH, function("later", defer_loading=True)]
    request = turn(tools=tools, native=frozenset({"function", "tool_search"}))
    assert names(request) == ["tool_search", "later"]
    assert request.deferred == ()


@pytest.mark.requirement("PROTOCOL/tools-unserved")
@pytest.mark.parametrize("ignored", ["image_generation", "*"])
def test_a_hosted_tool_is_rejected_or_omitted_and_reported(ignored: str) -> None:
    hosted = {"type": "image_generation"}
    error = refused(tools=[function("f"), hosted])
    assert isinstance(error, Unsupported)
    assert (error.param, error.code) == ("tools[1].type", "unsupported_tool")
    assert "tools.ignore" in error.message
    request = turn(tools=[function("f"), hosted, hosted], ignored=frozenset({ignored}))
    assert names(request) == ["f"]
    assert rendered(request.downgrades) == ["tool 'image_generation' is not available here and was left out"]


@pytest.mark.parametrize("kind", ["container_auto", "container_reference"])
def test_a_shell_in_a_container_is_a_hosted_tool(kind: str) -> None:
    tool = {"type": "shell", "environment": {"type": kind}}
    assert refused(tools=[tool]).code == "unsupported_tool"
    assert names(turn(tools=[tool], ignored=frozenset({"*"}))) == []


def test_an_extension_is_a_hosted_tool() -> None:
    assert refused(tools=[{"type": "acme:thing"}]).code == "unsupported_tool"
    assert turn(tools=[{"type": "acme:thing"}], ignored=frozenset({"acme:thing"})).tools == ()


def test_hosted_tools_of_the_backend_are_passed_to_it() -> None:
    declared = [{"type": "web_search"}, function("f"), {"type": "web_search"}]
    request = turn(tools=declared, native=frozenset({"function", "web_search"}))
    assert [tool.type for tool in request.hosted] == ["web_search"]
    assert names(request) == ["f"]
    chosen = turn(
        tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}, function("f")],
        native=frozenset({"function", "file_search"}),
        tool_choice={"type": "file_search"},
    )
    assert ([tool.type for tool in chosen.hosted], chosen.tools, chosen.choice) == (
        ["file_search"],
        (),
        "required",
    )


@pytest.mark.parametrize("kind", ["shell", "apply_patch", "local_shell", "computer", "tool_search"])
def test_a_choice_may_name_a_tool_by_its_type(kind: str) -> None:
    request = turn(tools=[*BUILT_IN, function("f")], tool_choice={"type": kind})
    assert names(request) == [kind]
    assert isinstance(request.choice, TurnTool)
    assert request.forbidden == {tool["type"] for tool in BUILT_IN} - {kind} | {"f"}
    error = refused(tools=[function("f")], tool_choice={"type": kind})
    assert (error.param, kind in error.message) == ("tool_choice", True)


@pytest.mark.parametrize("kind", ["computer", "computer_use", "computer_use_preview"])
def test_all_names_of_the_computer_are_one(kind: str) -> None:
    screen = {"environment": "mac", "display_width": 1, "display_height": 1}
    request = turn(tools=[{"type": "computer_use_preview", **screen}], tool_choice={"type": kind})
    assert names(request) == ["computer_use_preview"]


CRM = [
    namespace("crm", function("get"), function("list")),
    namespace("erp", function("get")),
    function("now"),
]


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ({"type": "function", "name": "get", "namespace": "erp"}, ["erp__get"]),
        ({"type": "function", "name": "crm__get"}, ["crm__get"]),
        ({"type": "function", "name": "list"}, ["crm__list"]),
        ({"type": "function", "name": "now"}, ["now"]),
        ({"type": "namespace", "name": "crm"}, ["crm__get", "crm__list"]),
    ],
)
def test_a_choice_may_name_a_tool_in_a_namespace(ref: dict[str, Any], expected: list[str]) -> None:
    forced = turn(tools=CRM, tool_choice=ref)
    assert names(forced) == expected
    assert isinstance(forced.choice, TurnTool) == (len(expected) == 1)
    allowed = turn(tools=CRM, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [ref]})
    assert names(allowed) == expected


def test_a_name_that_is_in_several_namespaces_is_rejected() -> None:
    error = refused(tools=CRM, tool_choice={"type": "function", "name": "get"})
    assert error.param == "tool_choice"
    assert "'crm', 'erp'" in error.message
    unknown = refused(tools=CRM, tool_choice={"type": "function", "name": "get", "namespace": "nope"})
    assert unknown.param == "tool_choice"


def test_allowed_tools_may_be_of_any_kind() -> None:
    refs = [{"type": "shell"}, {"type": "custom", "name": "c"}, {"type": "web_search"}]
    request = turn(
        tools=[*BUILT_IN, {"type": "custom", "name": "c"}, {"type": "web_search"}],
        tool_choice={"type": "allowed_tools", "mode": "required", "tools": refs},
        ignored=frozenset({"web_search"}),
    )
    assert (names(request), request.choice) == (["shell", "c"], "required")


def test_if_all_allowed_tools_are_ignored_the_choice_is_none() -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}
    request = turn(
        tools=[function("f"), {"type": "web_search"}], tool_choice=choice, ignored=frozenset({"*"})
    )
    assert (request.tools, request.choice) == ((), "none")


def test_a_deferred_tool_that_is_forced_is_shown() -> None:
    tools = [SEARCH, function("later", defer_loading=True)]
    assert names(turn(tools=tools, tool_choice={"type": "function", "name": "later"})) == ["later"]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [SEARCH, function("later")]}
    assert names(turn(tools=tools, tool_choice=allowed)) == ["tool_search"]


def test_a_model_may_guess_a_deferred_tool_unless_the_choice_rules_it_out() -> None:
    tools = [SEARCH, function("later", defer_loading=True), function("now")]
    assert turn(tools=tools).forbidden == frozenset()
    assert turn(tools=tools, tool_choice="none").forbidden == {"tool_search", "later", "now"}
    choice: dict[str, Any] = {"type": "allowed_tools", "mode": "auto", "tools": [SEARCH, function("later")]}
    assert turn(tools=tools, tool_choice=choice).forbidden == {"now"}
    choice["tools"].pop()
    assert turn(tools=tools, tool_choice=choice).forbidden == {"later", "now"}


def test_found_tools_remain_available() -> None:
    later = function("later", defer_loading=True)
    request = turn(*search(later), additional(later), tools=[SEARCH, later])
    assert names(request) == ["tool_search", "later"]


def test_a_path_is_the_caller_s_where_instructions_are_a_message() -> None:
    hosted_item = {"type": "web_search_call", "status": "completed"}
    request = create_from(model="m", input=[hosted_item, HI], instructions="Be brief.")
    found = build_turn(replace(request, profile=MAESTRO), model="up")
    assert [found.param(index) for index in range(2)] == ["previous_response_id", "input[1]"]


def test_a_functions_only_profile_rejects_other_tools() -> None:
    request = create_from(
        model="m", input=[additional(function("g"), {"type": "custom", "name": "c"}), HI],
        tools=[function("f", defer_loading=True), {"type": "shell"}],
    )  # fmt: skip
    found = build_turn(replace(request, profile=MAESTRO), model="up")
    assert names(found) == ["f", "g"]
    assert rendered(found.left_out) == [
        "tool 'shell' is not a function and was left out",
        "tool 'custom' is not a function and was left out",
    ]
