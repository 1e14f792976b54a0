"""`web_search_options` of chat completions with the official SDK: this server searches for any model."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.settings import SealSettings
from antiphon.settings.hosted_tools import ToolSettings, WebSearchSettings
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from tests.service.responses.searches import call
from tests.web.engine_server import PAGES, ScriptedEngine, running_engine

LINK = "([sky.example](https://www.sky.example/blue))"
ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "Why?"}]}
OPTIONS: Any = {"search_context_size": "low", "user_location": {"type": "approximate", "approximate": {"city": "Paris", "country": "FR"}}}  # fmt: skip


def backend() -> ScriptedBackend:
    first: list[Chunk] = [
        TextDelta("I look it up."),
        *call("why blue", index=1, name="web_search"),
        Finished("tool_calls"),
    ]
    return ScriptedBackend([first], [[TextDelta("Blué [1]."), Finished("stop")]])


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", "k")


@asynccontextmanager
async def serving(
    *, engine_known: bool = True, ignore: Sequence[str] = ()
) -> AsyncGenerator[tuple[Any, ScriptedEngine]]:
    """The SDK on a server with or without an engine."""
    async with running_engine() as engine:
        row = (
            WebSearchSettings(kind="brave", url=engine.url, key_env="SEARCH_KEY")
            if engine_known
            else WebSearchSettings()
        )
        settings = Settings(
            seal=SealSettings(key="test"), web_search=row, tools=ToolSettings(ignore=tuple(ignore))
        )
        async with Antiphon(settings, routes=[Route("m", backend())]) as service:
            yield service.openai_client(), engine


@pytest.mark.requirement("HOSTED/compat-chat-web-search")
async def test_an_answer_has_citations_whose_spans_fit_the_joined_content() -> None:
    async with serving() as (client, engine):
        answer = await client.chat.completions.create(**ASK, web_search_options=OPTIONS)
    message: Any = answer.choices[0].message
    assert message.content == f"I look it up.\n\nBlué {LINK}."
    [annotation] = message.annotations
    cited: Any = annotation.url_citation
    assert message.content[cited.start_index : cited.end_index] == LINK
    assert (cited.url, cited.title) == (PAGES[0][0], PAGES[0][1])
    assert message.tool_calls is None
    assert not hasattr(answer, "downgrades"), "the search has no other trace"
    sent = engine.requests[0]
    assert sent["headers"]["x-loc-city"] == "paris"


@pytest.mark.requirement("HOSTED/compat-chat-web-search")
async def test_a_stream_has_the_same_annotations() -> None:
    async with serving() as (client, _):
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(
                **ASK, web_search_options=OPTIONS, stream=True
            )
        ]
    deltas: list[Any] = [chunk.choices[0].delta for chunk in chunks]
    content = "".join(delta.content or "" for delta in deltas)
    extras: list[Any] = [delta.model_extra or {} for delta in deltas]
    annotations: list[Any] = [one for extra in extras for one in extra.get("annotations", ())]
    [cited] = [one["url_citation"] for one in annotations if one["type"] == "url_citation"]
    assert content[cited["start_index"] : cited["end_index"]] == LINK
    assert cited["url"] == PAGES[0][0]
    assert all(delta.tool_calls is None for delta in deltas)
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.requirement("HOSTED/compat-chat-web-search")
async def test_without_an_engine_one_setting_decides() -> None:
    async with serving(engine_known=False) as (client, _):
        with pytest.raises(openai.BadRequestError, match="'web_search' is not available") as refused:
            await client.chat.completions.create(**ASK, web_search_options={})
    assert refused.value.param == "web_search_options"
    async with serving(engine_known=False, ignore=["web_search"]) as (client, _):
        answer = await client.chat.completions.create(**ASK, web_search_options={})
    assert "tool 'web_search' is not available here and was left out" in str(answer.model_extra)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"search_context_size": "huge"}, "web_search_options.search_context_size"),
        (
            {"user_location": {"type": "approximate", "approximate": {"country": "France"}}},
            "web_search_options.user_location.approximate.country",
        ),
        ({"user_location": {"type": "approximate"}}, "web_search_options.user_location"),
    ],
)
async def test_invalid_options_are_named(options: Any, param: str) -> None:
    async with serving() as (client, _):
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(**ASK, web_search_options=options)
    assert (refused.value.param or "").startswith(param)
