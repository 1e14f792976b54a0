"""Web search with the official client, from the settings to a scripted engine on loopback."""

from typing import Any

import pytest
from openai.types.responses import ResponseFunctionWebSearch, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_output_text import AnnotationURLCitation

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.errors import SettingsError
from antiphon.settings import SealSettings
from antiphon.settings.hosted_tools import WebSearchSettings
from antiphon.turn.chunks import Finished, TextDelta
from tests.service.responses.searches import call
from tests.web.engine_server import PAGES, running_engine

LINK = "([sky.example](https://www.sky.example/blue))"


def settings(**row: Any) -> Settings:
    return Settings(seal=SealSettings(key="test"), web_search=WebSearchSettings(**row))


def backend() -> ScriptedBackend:
    search: list[Any] = [*call("why blue", name="web_search"), Finished("tool_calls")]
    return ScriptedBackend([search], [[TextDelta("Blue [1]."), Finished("stop")]])


@pytest.mark.requirement("HOSTED/web-search", "HOSTED/web-citations")
async def test_a_question_is_answered_with_citations() -> None:
    async with running_engine() as engine:
        made = settings(kind="searxng", url=engine.url)
        async with Antiphon(made, routes=[Route("m", backend())]) as service:
            response = await service.openai_client().responses.create(
                model="m",
                input="Why?",
                tools=[{"type": "web_search"}],
                include=["web_search_call.action.sources"],
            )
    searched, message = response.output
    assert isinstance(searched, ResponseFunctionWebSearch)
    assert searched.action.type == "search"
    assert [source.url for source in searched.action.sources or []] == [page[0] for page in PAGES]
    assert isinstance(message, ResponseOutputMessage)
    (part,) = message.content
    assert isinstance(part, ResponseOutputText)
    (cited,) = part.annotations
    assert isinstance(cited, AnnotationURLCitation)
    assert part.text[cited.start_index : cited.end_index] == LINK
    assert (cited.url, cited.title, part.text) == (PAGES[0][0], PAGES[0][1], f"Blue {LINK}.")


@pytest.mark.requirement("HOSTED/web-engines")
@pytest.mark.parametrize(
    "row", [{"kind": "searxng"}, {"kind": "brave"}, {"kind": "tavily", "key_env": "NO_K"}]
)
async def test_incomplete_settings_are_rejected(row: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="web_search"):
        async with Antiphon(settings(**row), routes=[Route("m", backend())]):
            pass
