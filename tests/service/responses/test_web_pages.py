"""`open_page` and `find_in_page` of `web_search`: the model reads pages, and cites them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from openai.types.responses import ResponseFunctionWebSearch
from openai.types.responses.response_function_web_search import ActionFind, ActionOpenPage

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import InvalidRequest
from antiphon.protocol.items import FunctionCall
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.service.hosted_tools.web_pages import MAX_FINDS, split_text
from antiphon.service.hosted_tools.web_search import WebSearch
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.web.port import DomainRules, WebPage
from tests.service.conftest import MakeCreator
from tests.service.responses.searches import create, outputs, stream
from tests.service.responses.test_web_search import LINK, SEARCH, ScriptedWeb

URL = "https://www.sky.example/blue"
TOOL: dict[str, Any] = {"type": "web_search"}
LONG = "\n".join(f"Line {number} of the sky." for number in range(100))


class ScriptedPages:
    """Pages in memory."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = pages
        self.opened: list[tuple[str, str, DomainRules]] = []

    async def open(self, tenant: str, url: str, rules: DomainRules) -> WebPage:
        self.opened.append((tenant, url, rules))
        if url not in self.pages:
            raise InvalidRequest(f"The page '{url}' cannot be opened: it answered with status 404.")
        return WebPage((url,), "Why blue", self.pages[url])


def function(name: str, **arguments: object) -> list[Chunk]:
    text = msgspec.json.encode(arguments).decode()
    return [CallStarted(0, "call_0", name), CallDelta(0, text), CallFinished(0), Finished("tool_calls")]


def says(text: str) -> list[Chunk]:
    return [TextDelta(text), Finished("stop")]


def made(
    make: MakeCreator, text: str, *turns: list[Chunk], max_tokens: int = 16_000
) -> tuple[Creator, ScriptedBackend, ScriptedPages]:
    backend, pages = ScriptedBackend(*([turn] for turn in turns)), ScriptedPages({URL: text})
    served = WebSearch(ScriptedWeb(), max_tokens, pages)
    return make(backend, served_tools=(served,)), backend, pages


@pytest.mark.requirement("HOSTED/web-pages")
async def test_an_opened_page_is_an_item_and_can_be_cited(make_creator: MakeCreator) -> None:
    open_it = function("open_page", url=URL)
    creator, backend, pages = made(make_creator, "It scatters.", open_it, says("Blue [1]."))
    events = await stream(creator, tools=[TOOL])
    assert [event["type"].removeprefix("response.") for event in events][2:7] == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
    ]
    assert "action" not in events[2]["item"]
    item, message = events[-1]["response"]["output"]
    assert isinstance(ResponseFunctionWebSearch.model_validate(item).action, ActionOpenPage)
    assert item["action"] == {"type": "open_page", "url": URL}
    assert "results" not in item
    part = message["content"][0]
    assert part["text"] == f"Blue {LINK}."
    assert (part["annotations"][0]["url"], part["annotations"][0]["title"]) == (URL, "Why blue")
    assert outputs(backend)[0].endswith(f"[1] Why blue\n{URL}\nIt scatters.")
    assert pages.opened == [("t", URL, DomainRules())]
    assert events[-1]["response"]["tool_usage"]["web_search"]["num_requests"] == 0
    assert [tool.name for tool in backend.turns[0].tools] == ["web_search", "open_page", "find_in_page"]


@pytest.mark.requirement("HOSTED/web-pages")
async def test_a_search_and_its_page_are_numbered_in_one_series(make_creator: MakeCreator) -> None:
    open_it = function("open_page", url=URL)
    creator, backend, _ = made(make_creator, "Text.", SEARCH, open_it, says("Blue [3]."))
    response = await create(creator, tools=[TOOL], include=["web_search_call.results"])
    assert "[3] Why blue" in outputs(backend)[1]
    searched, opened = response.output[:2]
    assert isinstance(searched, WebSearchCall)
    assert isinstance(opened, WebSearchCall)
    assert isinstance(opened.results, list)
    assert opened.results[0]["text"] == "Text."


@pytest.mark.requirement("HOSTED/web-pages")
async def test_a_long_page_is_read_part_by_part(make_creator: MakeCreator) -> None:
    creator, backend, _ = made(
        make_creator,
        LONG,
        function("open_page", url=URL),
        function("open_page", url=URL, part="2"),
        function("open_page", url=URL, part=9),
        says("a"),
        says("b"),
        max_tokens=400,
    )
    response = await create(creator, tools=[TOOL])
    first, second, third = outputs(backend)
    assert first.endswith("[Part 1 of 3. To read on, open the page with 'part': 2.]")
    assert second.endswith("[Part 2 of 3. To read on, open the page with 'part': 3.]")
    assert "Line 0 of" in first
    assert "Line 0 of" not in second
    assert third == "The call failed: 'part' is 9, but the page has 3. Send a smaller number."
    calls = [item for item in backend.turns[-1].items if isinstance(item, FunctionCall)]
    assert calls[1].arguments == f'{{"url":"{URL}","part":2}}'
    await create(creator, tools=[TOOL], previous_response_id=response.id, input="Sure?")
    assert outputs(backend)[:2] == [first, second]


@pytest.mark.requirement("HOSTED/web-find")
async def test_a_text_is_found_with_what_is_around_it(make_creator: MakeCreator) -> None:
    text = f"{'x ' * 900}Rayleigh\nScattering{' y' * 900} the end. {'z ' * 900}RAYLEIGH scattering."
    find = function("find_in_page", url=URL, pattern=" rayleigh  scattering ")
    creator, backend, _ = made(make_creator, text, find, says("a"))
    response = await create(creator, tools=[TOOL])
    assert isinstance(response.output[0], WebSearchCall)
    item = ResponseFunctionWebSearch.model_validate(msgspec.to_builtins(response.output[0]))
    assert isinstance(item.action, ActionFind)
    assert response.output[0].action == {
        "type": "find_in_page",
        "url": URL,
        "pattern": "rayleigh  scattering",
    }
    shown = outputs(backend)[0]
    assert "x Rayleigh\nScattering y" in shown
    assert shown.endswith("z RAYLEIGH scattering.…")
    assert "the end" not in shown
    assert len(shown) < 2500


@pytest.mark.requirement("HOSTED/web-find")
async def test_the_place_of_a_find_names_its_part_and_many_are_bounded(make_creator: MakeCreator) -> None:
    creator, backend, _ = made(
        make_creator,
        LONG,
        function("find_in_page", url=URL, pattern="Line 99"),
        function("find_in_page", url=URL, pattern="sky"),
        function("find_in_page", url=URL, pattern="sea"),
        function("find_in_page", url=URL),
        says("a"),
        max_tokens=400,
    )
    await create(creator, tools=[TOOL])
    place, many, none, wrong = outputs(backend)
    assert "[Part 3 of 3]\n" in place
    assert many.endswith(f"[Found more than {MAX_FINDS} times.]")
    assert "does not contain 'sea'" in none
    assert wrong == "The call failed: 'pattern' must be a text."


@pytest.mark.requirement("HOSTED/web-pages-hostile")
async def test_a_page_that_cannot_be_opened_is_a_failed_item(make_creator: MakeCreator) -> None:
    creator, backend, _ = made(
        make_creator, "", function("open_page", url="https://away.example/"), function("open_page"), says("a")
    )
    response = await create(creator, tools=[TOOL])
    item = response.output[0]
    assert isinstance(item, WebSearchCall)
    assert (item.status, item.action, response.status) == (
        "failed",
        {"type": "open_page", "url": "https://away.example/"},
        "completed",
    )
    assert "status 404" in outputs(backend)[0]
    assert outputs(backend)[1] == "The call failed: 'url' must be an address."


@pytest.mark.requirement("HOSTED/web-page-filters")
async def test_the_filters_are_those_of_the_declaration(make_creator: MakeCreator) -> None:
    creator, _, pages = made(make_creator, "a", function("open_page", url=URL), says("a"))
    filters = {"allowed_domains": ["Sky.example"], "blocked_domains": ["bad.example"]}
    await create(creator, tools=[{**TOOL, "filters": filters}])
    rules = DomainRules(allowed_domains=("sky.example",), blocked_domains=("bad.example",))
    assert pages.opened == [("t", URL, rules)]


@pytest.mark.requirement("HOSTED/web-page-filters")
async def test_without_access_to_the_web_only_the_engine_is_asked(make_creator: MakeCreator) -> None:
    creator, backend, pages = made(make_creator, "a", SEARCH, says("a"))
    await create(creator, tools=[{**TOOL, "external_web_access": False}])
    assert [tool.name for tool in backend.turns[0].tools] == ["web_search"]
    assert not pages.opened


@pytest.mark.parametrize("size", [100, 101, 102, 103, 1000])
def test_parts_are_the_whole_text_and_no_character_is_cut(size: int) -> None:
    for text in ("ä" * 500, "word " * 300, "a\n" * 500, "𝄞x" * 200, ""):
        parts = split_text(text, size)
        assert "".join(parts) == text
        assert all(len(part.encode()) <= size for part in parts)
