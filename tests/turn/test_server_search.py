"""The server's own search for tools: what is taken out of a turn, and what is told in its place."""

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


def heard(search: ServerSearch, *chunks: Chunk) -> list[Chunk]:
    return [left for chunk in chunks for left in search.feed([chunk])]


def searching(arguments: str, index: int = 0) -> list[Chunk]:
    return [CallStarted(index, "c", "tool_search"), CallDelta(index, arguments), CallFinished(index)]


def names(found: Chunk) -> list[str]:
    assert isinstance(found, ToolsFound)
    return [getattr(tool, "name", "") for tool in found.tools]


def test_nothing_listens_where_the_client_searches() -> None:
    tools = [{"type": "tool_search", "execution": "client"}, WEATHER]
    assert server_search(build_turn(create_from(model="m", input="x", tools=tools), model="m")) is None


def test_a_search_is_taken_out_and_its_result_kept_for_the_next_round() -> None:
    search = listening()
    left = heard(
        search, TextDelta("I look"), *searching('{"query": "weather"}'), USAGE, Finished("tool_calls")
    )
    assert left == [TextDelta("I look")]
    assert names(search.found[0]) == ["get_weather"]
    assert search.usage == USAGE.usage
    assert search.found[0].arguments == {"query": "weather"}


def test_other_calls_of_the_same_turn_make_it_the_clients_turn() -> None:
    search = listening()
    clock: list[Chunk] = [CallStarted(1, "d", "clock"), CallDelta(1, "{}")]
    left = heard(search, *searching('{"query": "mail"}'), *clock, USAGE, Finished("tool_calls"))
    assert left[:3] == [*clock, USAGE]
    assert names(left[3]) == ["send_mail"]
    assert (left[4], search.found) == (Finished("tool_calls"), [])


def test_another_call_at_the_place_of_a_search_is_another_call() -> None:
    search = listening()
    clock: list[Chunk] = [CallStarted(0, "d", "clock"), CallDelta(0, "{}")]
    assert heard(search, *searching('{"query": "mail"}'), *clock, Finished("tool_calls"))[:2] == clock


def test_the_model_may_say_how_many_it_wants() -> None:
    many = [tool(f"weather_{number}", "weather") for number in range(20)]
    search = listening([{"type": "tool_search"}, *many])
    heard(search, *searching('{"query": "weather", "limit": 50}'), Finished("tool_calls"))
    assert len(names(search.found[0])) == 20
    search = listening([{"type": "tool_search"}, *many])
    heard(search, *searching('{"query": "weather", "limit": 2}'), Finished("tool_calls"))
    assert len(names(search.found[0])) == 2


def test_a_turn_that_fails_has_found_nothing() -> None:
    search = listening()
    failed = Failed(BackendBroken("gone"))
    assert heard(search, *searching('{"query": "mail"}'), USAGE, failed) == [USAGE, failed]
    assert search.found == []


def test_a_search_that_was_cut_short_ends_the_turn() -> None:
    search = listening()
    cut = heard(search, *searching('{"query": "ma'), USAGE, Finished("length"))
    assert cut == [USAGE, Finished("length")]
    assert search.found == []
