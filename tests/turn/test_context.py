"""The model's view of the tools."""

from typing import Any

import pytest
from msgspec import UNSET

from antiphon.protocol.parse_create import create_from
from antiphon.turn.context import TurnRequest, build_turn


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


def turn(**params: Any) -> TurnRequest:
    return build_turn(create_from(model="m", input="hi", **params), model="up")


def names(request: TurnRequest) -> list[str]:
    return [tool.name for tool in request.tools]


@pytest.mark.requirement("PROTOCOL/tools-namespaces-flat")
def test_namespaces_are_flattened_and_remembered() -> None:
    request = turn(tools=[function("now"), {"type": "namespace", "name": "time", "tools": [function("now")]}])
    assert names(request) == ["now", "time__now"]
    assert (request.tools[1].origin, request.tools[1].namespace) == ("now", "time")


@pytest.mark.requirement("PROTOCOL/tools-namespaces-flat")
def test_flat_names_never_collide_and_fit() -> None:
    long = "x" * 70
    request = turn(
        tools=[
            function("a__b"),
            {"type": "namespace", "name": "a", "tools": [function("b")]},
            {"type": "namespace", "name": long, "tools": [function("c"), function("d")]},
        ]
    )
    flat = names(request)
    assert len(set(flat)) == 4
    assert all(len(name) <= 64 for name in flat)


def test_calls_in_the_history_use_the_flat_name() -> None:
    request = turn(tools=[function("a__b"), {"type": "namespace", "name": "a", "tools": [function("b")]}])
    assert request.flat_name("b", "a") == names(request)[1]
    assert request.flat_name("b", UNSET) == "b"
    assert request.flat_name("gone", "ns") == "ns__gone"


@pytest.mark.requirement("PROTOCOL/tools-choice-named")
def test_a_forced_tool_is_the_only_one_shown() -> None:
    request = turn(tools=[function("a"), function("b")], tool_choice={"type": "function", "name": "b"})
    assert names(request) == ["b"]
    assert request.choice == request.tools[0]
    assert request.forbidden == {"a"}


@pytest.mark.requirement("PROTOCOL/tools-choice-allowed")
def test_allowed_tools_hide_the_others() -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": [function("b"), function("c")]}
    request = turn(tools=[function("a"), function("b"), function("c")], tool_choice=choice)
    assert names(request) == ["b", "c"]
    assert request.choice == "required"
    assert request.forbidden == {"a"}


def test_a_param_index_counts_from_the_requests_items() -> None:
    request = create_from(model="m", input=[{"role": "user", "content": "x"}] * 2)
    continued = build_turn(request, request.items * 2, model="up", history=2)
    assert [continued.param(index) for index in range(4)] == [
        "previous_response_id", "previous_response_id", "input[0]", "input[1]",
    ]  # fmt: skip


@pytest.mark.requirement("PROTOCOL/tools-choice-none")
def test_tool_choice_none_shows_no_tools() -> None:
    request = turn(tools=[function("a")], tool_choice="none")
    assert (request.tools, request.choice, request.forbidden) == ((), "none", {"a"})


@pytest.mark.requirement("PROTOCOL/tools-custom-grammar")
def test_custom_tools_carry_their_grammar() -> None:
    grammar = {"type": "grammar", "syntax": "regex", "definition": "a+"}
    request = turn(tools=[{"type": "custom", "name": "c", "description": "d", "format": grammar}])
    assert request.tools[0].kind == "custom"
    assert request.tools[0].grammar is not None
    assert request.tools[0].description == "d\n\nThe input must follow this regex grammar:\na+"
