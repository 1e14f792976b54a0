"""The search for deferred tools."""

from typing import Any

import pytest

from antiphon.protocol.definitions import Definitions
from antiphon.protocol.parse_tools import parse_tools
from antiphon.protocol.tools import NamespaceTool, Tool
from antiphon.turn.tool_search import MAX_FOUND_TOOLS, search_limit, search_tools


def function(name: str, description: str = "", *parameters: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {parameter: {"type": "string"} for parameter in parameters}}
    return {"type": "function", "name": name, "description": description, "parameters": schema}


TOOLS = parse_tools(
    [
        function("get_weather", "The weather of a city", "city"),
        function("sendMail", "Send a mail to somebody", "recipient"),
        {
            "type": "namespace",
            "name": "crm",
            "description": "Customers and their orders",
            "tools": [function("list_orders", "All orders"), function("delete_account"), function("ping")],
        },
        {"type": "custom", "name": "run_sql", "description": "Queries the database"},
    ],
    Definitions(),
)


def found(query: str, limit: int = 8) -> list[str]:
    names: list[str] = []
    for tool in search_tools(query, TOOLS, limit):
        assert not isinstance(tool, str)
        if isinstance(tool, NamespaceTool):
            names += [f"{tool.name}.{member.name}" for member in tool.tools]
        else:
            names.append(getattr(tool, "name", ""))
    return names


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("weather in Rome", "get_weather"),
        ("mails", "sendMail"),
        ("MAIL", "sendMail"),
        ("send_mail", "sendMail"),
        ("recipients", "sendMail"),
        ("order", "crm.list_orders"),
        ("a query for the databases", "run_sql"),
    ],
)
def test_the_best_match_is_first(query: str, first: str) -> None:
    assert found(query)[0] == first


def test_a_namespace_is_found_with_the_members_that_fit() -> None:
    assert found("crm orders", limit=1) == ["crm.list_orders"]
    assert found("accounts of the crm")[0] == "crm.delete_account"


@pytest.mark.parametrize("query", ["", "   ", "the", "zebra", "?!"])
def test_an_empty_query_matches_no_tools(query: str) -> None:
    assert found(query) == []


def test_a_search_is_bounded() -> None:
    many: tuple[Tool, ...] = parse_tools([function(f"file_{index}") for index in range(200)], Definitions())
    assert len(search_tools("file", many, 3)) == 3
    assert len(search_tools("file", many, 10_000)) == MAX_FOUND_TOOLS
    assert len(search_tools("file", many, -1)) == 1
    assert search_tools("x" * 1_000_000, many) == []


@pytest.mark.parametrize(
    ("arguments", "limit"), [({}, 8), ({"limit": 3}, 3), ({"limit": 0}, 8), ({"limit": "3"}, 8)]
)
def test_a_model_may_limit_the_number_of_results(arguments: dict[str, Any], limit: int) -> None:
    assert search_limit(arguments) == limit
