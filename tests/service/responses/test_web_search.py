"""`web_search`: the server searches the web, the model continues with the pages, and cites them."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import AntiphonError, BackendUnreachable, InvalidRequest
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.service.hosted_tools.web_search import WebSearch
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from antiphon.web.port import WebLocation, WebQuery, WebResult
from tests.service.conftest import MakeCreator
from tests.service.responses.searches import USAGE, call, create, outputs, stream

BLUE = WebResult("https://www.sky.example/blue", "Why blue", "Air scatters blue light.")
GREEN = WebResult("https://grass.example/green_(colour)", "Why green", "Leaves absorb red light.")
TOOL: dict[str, Any] = {"type": "web_search"}
SEARCH: list[Chunk] = [*call("why blue", name="web_search"), USAGE, Finished("tool_calls")]
LINK = "([sky.example](https://www.sky.example/blue))"
GREEN_LINK = "([grass.example](https://grass.example/green_%28colour%29))"


class ScriptedWeb:
    """A search engine that always finds the same."""

    def __init__(self, found: Sequence[WebResult] | AntiphonError = (BLUE, GREEN)) -> None:
        self.found = found
        self.queries: list[WebQuery] = []

    async def search(self, query: WebQuery) -> Sequence[WebResult]:
        self.queries.append(query)
        if isinstance(self.found, AntiphonError):
            raise self.found
        return self.found[: query.limit]

    def close(self) -> None:
        pass


def made(make_creator: MakeCreator, web: ScriptedWeb, *turns: Any) -> tuple[Creator, ScriptedBackend]:
    backend = ScriptedBackend(*([list(turn)] for turn in turns))
    return make_creator(backend, served_tools=(WebSearch(web),)), backend


def answer(*deltas: str) -> list[Chunk]:
    return [*map(TextDelta, deltas), USAGE, Finished("stop")]


def part(response: object) -> dict[str, Any]:
    return msgspec.to_builtins(response)["output"][-1]["content"][0]


@pytest.mark.requirement("HOSTED/web-search")
@pytest.mark.parametrize(
    "kind", ["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]
)
async def test_the_events_come_in_their_order(make_creator: MakeCreator, kind: str) -> None:
    creator, backend = made(make_creator, ScriptedWeb(), SEARCH, answer("Blue [1]."))
    events = await stream(creator, tools=[{"type": kind}])
    types = [event["type"].removeprefix("response.") for event in events]
    assert types[2:8] == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
        "output_item.added",
    ]
    added, done = events[2]["item"], events[6]["item"]
    assert added == {"type": "web_search_call", "id": done["id"], "status": "in_progress"}
    assert done["status"] == "completed"
    assert done["action"] == {"type": "search", "query": "why blue", "queries": ["why blue"]}
    assert "results" not in done
    response = events[-1]["response"]
    assert response["tool_usage"]["web_search"] == {"num_requests": 1}
    assert "[1] Why blue\nhttps://www.sky.example/blue\nAir scatters" in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/web-citations")
@pytest.mark.parametrize(
    "deltas",
    [
        ("Blue [1]. Both [1, 2]!",),
        ("Blue [", "1", "]", ". Both [1,", " 2", "]!"),
        tuple("Blue [1]. Both [1, 2]!"),
    ],
)
async def test_a_citation_covers_its_link(make_creator: MakeCreator, deltas: tuple[str, ...]) -> None:
    creator, _ = made(make_creator, ScriptedWeb(), SEARCH, answer(*deltas))
    events = await stream(creator, tools=[TOOL])
    text = part(events[-1]["response"])
    assert text["text"] == f"Blue {LINK}. Both {LINK} {GREEN_LINK}!"
    assert "".join(event["delta"] for event in events if event["type"].endswith("text.delta")) == text["text"]
    cited = text["annotations"]
    spans = [text["text"][one["start_index"] : one["end_index"]] for one in cited]
    assert spans == [LINK, LINK, GREEN_LINK]
    assert cited[2] | {"start_index": 0, "end_index": 0} == {
        "type": "url_citation",
        "url": GREEN.url,
        "title": "Why green",
        "start_index": 0,
        "end_index": 0,
    }
    added = [event["annotation"] for event in events if event["type"].endswith("annotation.added")]
    assert added == cited


@pytest.mark.requirement("HOSTED/web-search")
async def test_sources_and_results_are_sent_if_they_are_asked_for(make_creator: MakeCreator) -> None:
    creator, _ = made(make_creator, ScriptedWeb(), SEARCH, answer("a"))
    include = ["web_search_call.action.sources", "web_search_call.results"]
    response = await create(creator, tools=[TOOL], include=include)
    search = response.output[0]
    assert isinstance(search, WebSearchCall)
    assert isinstance(search.action, dict)
    assert search.action["sources"] == [{"type": "url", "url": one.url} for one in (BLUE, GREEN)]
    assert isinstance(search.results, list)
    assert search.results[1]["text"] == GREEN.text


@pytest.mark.requirement("HOSTED/web-filters")
async def test_the_options_are_those_of_the_search(make_creator: MakeCreator) -> None:
    web = ScriptedWeb()
    creator, _ = made(make_creator, web, SEARCH, answer("a"))
    tool = {
        **TOOL,
        "filters": {"allowed_domains": ["Sky.example"], "blocked_domains": ["bad.example"]},
        "search_context_size": "low",
        "user_location": {"type": "approximate", "country": "CH", "city": "Bern"},
    }
    await create(creator, tools=[tool])
    assert web.queries == [
        WebQuery(
            text="why blue",
            limit=4,
            allowed_domains=("sky.example",),
            blocked_domains=("bad.example",),
            location=WebLocation(country="CH", city="Bern"),
        )
    ]


@pytest.mark.requirement("HOSTED/web-filters")
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"search_context_size": "huge"}, "tools[0].search_context_size"),
        ({"filters": {"allowed_domains": ["https://a.example"]}}, "tools[0].filters.allowed_domains[0]"),
        ({"filters": {"blocked_domains": ["a.example", "a b"]}}, "tools[0].filters.blocked_domains[1]"),
        ({"filters": {"allowed_domains": ["a.example"] * 101}}, "tools[0].filters.allowed_domains"),
        ({"user_location": {"country": "Switzerland"}}, "tools[0].user_location.country"),
        ({"external_web_access": "no"}, "tools[0].external_web_access"),
    ],
)
async def test_a_wrong_declaration_is_rejected(
    make_creator: MakeCreator, change: dict[str, Any], param: str
) -> None:
    creator, backend = made(make_creator, ScriptedWeb(), SEARCH)
    with pytest.raises(InvalidRequest) as refused:
        await create(creator, tools=[{**TOOL, **change}])
    assert refused.value.param == param
    assert not backend.turns


@pytest.mark.requirement("HOSTED/web-next-turn")
async def test_the_next_turn_sees_the_pages_with_their_numbers(make_creator: MakeCreator) -> None:
    web = ScriptedWeb()
    creator, backend = made(make_creator, web, SEARCH, answer("Blue [1]."), answer("Green [2]."))
    first = await create(creator, tools=[TOOL])
    second = await create(creator, tools=[TOOL], previous_response_id=first.id, input="And grass?")
    assert part(second)["text"] == f"Green {GREEN_LINK}."
    assert len(web.queries) == 1
    assert "[2] Why green" in outputs(backend)[0]


@pytest.mark.requirement("HOSTED/web-next-turn")
async def test_a_client_that_stores_nothing_is_asked_to_search_again(make_creator: MakeCreator) -> None:
    creator, backend = made(make_creator, ScriptedWeb(), answer("Green [2]."))
    action = {"type": "search", "query": "why"}
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    response = await create(creator, tools=[TOOL], input=[item, {"role": "user", "content": "hi"}])
    assert "not available any more" in outputs(backend)[0]
    assert part(response)["text"] == "Green [2]."


@pytest.mark.requirement("HOSTED/web-hostile")
async def test_a_search_that_fails_is_told_to_the_model(make_creator: MakeCreator) -> None:
    web = ScriptedWeb(BackendUnreachable("The search engine is away."))
    creator, backend = made(make_creator, web, SEARCH, answer("I do not know."))
    response = await create(creator, tools=[TOOL])
    search = response.output[0]
    assert isinstance(search, WebSearchCall)
    assert (search.status, response.status) == ("failed", "completed")
    assert outputs(backend) == ["The call failed: The search engine is away."]


async def test_nothing_found_and_no_query(make_creator: MakeCreator) -> None:
    creator, backend = made(make_creator, ScriptedWeb(()), SEARCH, answer("No [1]."))
    response = await create(creator, tools=[TOOL])
    assert "found nothing" in outputs(backend)[0]
    assert part(response)["text"] == "No [1]."
    empty = [*call(name="web_search"), Finished("tool_calls")]
    creator, backend = made(make_creator, ScriptedWeb(), empty, answer("a"))
    await create(creator, tools=[TOOL])
    assert "at least one text" in outputs(backend)[0]


async def test_several_queries_are_merged_and_a_search_can_be_demanded(make_creator: MakeCreator) -> None:
    web = ScriptedWeb()
    several = [*call("a", "b", name="web_search"), Finished("tool_calls")]
    creator, backend = made(make_creator, web, several, answer("x"))
    await create(creator, tools=[TOOL])
    assert [query.text for query in web.queries] == ["a", "b"]
    assert outputs(backend)[0].count("Why blue") == 1
    creator, backend = made(make_creator, web, answer("I know."), answer("x"))
    response = await create(creator, tools=[TOOL], tool_choice={"type": "web_search"})
    assert isinstance(response.output[0], WebSearchCall)
    assert web.queries[-1].text == "Why is the sky blue?"
