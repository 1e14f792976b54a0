"""The server-side tool search: its calls are removed from the turn and replaced by results."""

from typing import Any

from antiphon.errors import BackendBroken
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    TextDelta,
    ToolsFound,
    UsageReported,
)
from antiphon.turn.context import build_turn
from antiphon.turn.server_search import ServerSearch, server_search

USAGE = UsageReported(Usage(3, InputTokensDetails(), 2, OutputTokensDetails(), 5))


def tool(name: str, description: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "defer_loading": True}


WEATHER = tool("get_weather", "The weather of a city")
MAIL = tool("send_mail", "Send a mail to somebody")
TOOLS: list[dict[str, Any]] = [{"type": "tool_search"}, WEATHER, MAIL, {"type": "function", "name": "clock"}]


def listening(tools: list[dict[str, Any]] | None = None) -> ServerSearch:
    search = server_search(build_turn(create_from(model="m", input="x", tools=tools or TOOLS), model="m"))
    assert search is not None
    return search


def fed(search: ServerSearch, *chunks: Chunk) -> list[Chunk]:
    return [passed for chunk in chunks for passed in search.feed([chunk])]


def searching(arguments: str, index: int = 0) -> list[Chunk]:
    return [CallStarted(index, "c", "tool_search"), CallDelta(index, arguments), CallFinished(index)]


def names(found: Chunk) -> list[str]:
    assert isinstance(found, ToolsFound)
    return [getattr(tool, "name", "") for tool in found.tools]


def test_there_is_no_server_search_where_the_client_searches() -> None:
    tools = [{"type": "tool_search", "execution": "client"}, WEATHER]
    assert server_search(build_turn(create_from(model="m", input="x", tools=tools), model="m")) is None


def test_a_search_call_is_removed_and_its_result_used_in_the_next_round() -> None:
    search = listening()
    passed = fed(
        search, TextDelta("I look"), *searching('{"query": "weather"}'), USAGE, Finished("tool_calls")
    )
    assert passed == [TextDelta("I look")]
    assert names(search.found[0]) == ["get_weather"]
    assert search.usage == USAGE.usage
    assert search.found[0].arguments == {"query": "weather"}


def test_other_calls_of_the_same_turn_make_it_the_clients_turn() -> None:
    search = listening()
    clock: list[Chunk] = [CallStarted(1, "d", "clock"), CallDelta(1, "{}")]
    passed = fed(search, *searching('{"query": "mail"}'), *clock, USAGE, Finished("tool_calls"))
    assert passed[:3] == [*clock, USAGE]
    assert names(passed[3]) == ["send_mail"]
    assert (passed[4], search.found) == (Finished("tool_calls"), [])


def test_a_new_call_at_the_index_of_a_search_is_passed_on() -> None:
    search = listening()
    clock: list[Chunk] = [CallStarted(0, "d", "clock"), CallDelta(0, "{}")]
    assert fed(search, *searching('{"query": "mail"}'), *clock, Finished("tool_calls"))[:2] == clock


def test_the_model_may_limit_the_number_of_results() -> None:
    many = [tool(f"weather_{number}", "weather") for number in range(20)]
    search = listening([{"type": "tool_search"}, *many])
    fed(search, *searching('{"query": "weather", "limit": 50}'), Finished("tool_calls"))
    assert len(names(search.found[0])) == 20
    search = listening([{"type": "tool_search"}, *many])
    fed(search, *searching('{"query": "weather", "limit": 2}'), Finished("tool_calls"))
    assert len(names(search.found[0])) == 2


def test_a_failed_turn_has_no_search_results() -> None:
    search = listening()
    failed = Failed(BackendBroken("gone"))
    assert fed(search, *searching('{"query": "mail"}'), USAGE, failed) == [USAGE, failed]
    assert search.found == []


def test_a_truncated_search_ends_the_turn() -> None:
    search = listening()
    cut = fed(search, *searching('{"query": "ma'), USAGE, Finished("length"))
    assert cut == [USAGE, Finished("length")]
    assert search.found == []
