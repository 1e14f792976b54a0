"""Server tools of the Messages API with the official `anthropic` SDK: search, code and the MCP connector."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import pytest
from anthropic.types import (
    CitationsWebSearchResultLocation,
    CodeExecutionResultBlock,
    CodeExecutionToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolUseBlock,
    WebSearchToolResultBlock,
)
from anthropic.types.beta import BetaMCPToolResultBlock, BetaMCPToolUseBlock

from antiphon import Route, ScriptedBackend, Settings
from antiphon.protocol.items import FunctionCall, FunctionCallOutput
from antiphon.settings import SealSettings, StoreSettings
from antiphon.settings.hosted_tools import WebSearchSettings
from antiphon.settings.sections import EgressSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished, TextDelta, UsageReported
from antiphon.wiring import build_app
from tests.mcp import conftest as mcp_conftest
from tests.sandbox.sandboxes import bubblewrap
from tests.service.responses.searches import call
from tests.turn.chunk_strategies import USAGE
from tests.uvicorn_here import serve_here
from tests.web.engine_server import PAGES, running_engine

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]
sdk_url = mcp_conftest.sdk_url

HELLO: Any = [{"role": "user", "content": "Why is the sky blue?"}]
SEARCH: Any = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
CODE: Any = {"type": "code_execution_20250825", "name": "code_execution"}
LINK = "([sky.example](https://www.sky.example/blue))"
ANSWER: list[Chunk] = [TextDelta("Blue [1]."), UsageReported(USAGE), Finished("stop")]
SEARCHED: list[Chunk] = [*call("why blue", name="web_search"), UsageReported(USAGE), Finished("tool_calls")]


@pytest.fixture
def sandbox() -> None:
    """Skips the test where there is none."""
    bubblewrap()


def called(name: str, arguments: str) -> list[Chunk]:
    return [CallStarted(0, "call_1", name), CallDelta(0, arguments), Finished("tool_calls")]


def model(*turns: list[Chunk]) -> ScriptedBackend:
    return ScriptedBackend(*([turn] for turn in turns))


@asynccontextmanager
async def serving(backend: ScriptedBackend, **engine: Any) -> AsyncGenerator[Any]:
    """The SDK on a real server with a search engine, code execution and MCP."""
    async with running_engine() as searched:
        settings = Settings(
            seal=SealSettings(key="test"),
            store=StoreSettings(url="memory:"),
            web_search=WebSearchSettings(kind="searxng", url=searched.url, **engine),
            egress=EgressSettings(allow=("127.0.0.1/32",)),
        )

        def app() -> Any:
            return build_app(settings, routes=[Route("m", backend)])

        async with (
            serve_here(app) as here,
            anthropic.AsyncAnthropic(
                base_url=f"http://127.0.0.1:{here.port}", api_key="none", max_retries=0
            ) as client,
        ):
            yield client


async def ask(client: Any, *, streamed: bool, messages: Any = HELLO, **params: Any) -> Any:
    """The message, created or folded from its stream."""
    given = {"model": "m", "max_tokens": 500, "messages": messages, **params}
    messages_api = client.beta.messages if "betas" in params else client.messages
    if not streamed:
        return await messages_api.create(**given)
    async with messages_api.stream(**given) as stream:
        return await stream.get_final_message()


def shown(backend: ScriptedBackend) -> list[tuple[str, str]]:
    """The calls and outputs that the model saw in its last turn, without ids."""
    items = backend.turns[-1].items
    return [
        (item.name, item.arguments) if isinstance(item, FunctionCall) else ("", str(item.output))
        for item in items
        if isinstance(item, FunctionCall | FunctionCallOutput)
    ]


@pytest.mark.requirement("HOSTED/compat-messages-web-search")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_search_is_two_blocks_and_its_citations_are_in_the_text(streamed: bool) -> None:
    backend = model(SEARCHED, ANSWER)
    async with serving(backend) as client:
        message = await ask(client, streamed=streamed, tools=[SEARCH])
    use, result, text = message.content
    assert isinstance(use, ServerToolUseBlock)
    assert (use.name, use.input) == ("web_search", {"query": "why blue"})
    assert isinstance(result, WebSearchToolResultBlock)
    assert result.tool_use_id == use.id
    assert isinstance(result.content, list)
    assert [(page.url, page.title) for page in result.content] == [(page[0], page[1]) for page in PAGES]
    assert all(page.encrypted_content.startswith("antiphon2.") for page in result.content)
    assert isinstance(text, TextBlock)
    assert text.text == f"Blue {LINK}."
    [cited] = text.citations or []
    assert isinstance(cited, CitationsWebSearchResultLocation)
    assert (cited.url, cited.title, cited.cited_text) == PAGES[0]
    assert message.usage.server_tool_use.web_search_requests == 1
    assert message.usage.output_tokens == 2 * USAGE.output_tokens
    assert (message.stop_reason, "downgrades" in message.model_extra) == ("end_turn", False)
    assert backend.turns[0].params.max_tool_calls == 3


@pytest.mark.requirement("HOSTED/compat-messages-history")
@pytest.mark.parametrize("streamed", [False, True])
async def test_blocks_that_are_sent_back_show_the_model_the_same_results(streamed: bool) -> None:
    backend = model(SEARCHED, ANSWER, ANSWER)
    async with serving(backend) as client:
        first = await ask(client, streamed=streamed, tools=[SEARCH])
        saw = shown(backend)
        history = [*HELLO, {"role": "assistant", "content": first.content}, *HELLO]
        second = await ask(client, streamed=streamed, messages=history, tools=[SEARCH])
    assert shown(backend) == saw
    assert PAGES[0][2] in saw[1][1]
    [text] = second.content
    assert text.citations[0].url == PAGES[0][0], "the numbers of the pages are still known"
    assert "downgrades" not in second.model_extra


async def test_a_tool_of_the_client_and_a_search_in_one_turn() -> None:
    weather = {"name": "weather", "input_schema": {"type": "object"}}
    both: list[Chunk] = [
        *call("why blue", name="web_search"),
        CallStarted(1, "call_w", "weather"),
        CallDelta(1, "{}"),
        Finished("tool_calls"),
    ]
    backend = model(both, ANSWER)
    async with serving(backend) as client:
        first = await ask(client, streamed=True, tools=[SEARCH, weather])
        kinds = [block.type for block in first.content]
        assert sorted(kinds) == ["server_tool_use", "tool_use", "web_search_tool_result"]
        assert first.stop_reason == "tool_use"
        [use] = [block for block in first.content if isinstance(block, ToolUseBlock)]
        output = {"type": "tool_result", "tool_use_id": use.id, "content": "sun"}
        history = [
            *HELLO,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [output]},
        ]
        second = await ask(client, streamed=True, messages=history, tools=[SEARCH, weather])
    assert second.content[0].text == f"Blue {LINK}."
    outputs = [text for name, text in shown(backend) if not name]
    assert len(outputs) == 2
    assert "sun" in outputs


async def test_a_search_that_fails_is_an_error_block_and_the_answer_goes_on() -> None:
    backend = model(SEARCHED, [TextDelta("Sorry."), Finished("stop")], ANSWER)
    async with serving(backend, timeout=0.000_001) as client:
        first = await ask(client, streamed=True, tools=[SEARCH])
        _, result, text = first.content
        assert result.content.error_code == "unavailable"
        assert text.text == "Sorry."
        history = [*HELLO, {"role": "assistant", "content": first.content}, *HELLO]
        await ask(client, streamed=False, messages=history, tools=[SEARCH])
    assert shown(backend)[1] == ("", "The call failed: the search has reported 'unavailable'")


@pytest.mark.usefixtures("sandbox")
@pytest.mark.requirement("HOSTED/compat-messages-code")
@pytest.mark.parametrize("streamed", [False, True])
async def test_code_runs_in_a_container_that_the_next_turn_finds(streamed: bool) -> None:
    stop: list[Chunk] = [TextDelta("42"), Finished("stop")]
    backend = model(
        called("python", '{"code": "x = 6\\nprint(x * 7)"}'),
        stop,
        called("python", '{"code": "print(x + 1)"}'),
        stop,
    )
    async with serving(backend) as client:
        first = await ask(client, streamed=streamed, tools=[CODE])
        use, result, _ = first.content
        assert isinstance(use, ServerToolUseBlock)
        assert (use.name, use.input) == ("code_execution", {"code": "x = 6\nprint(x * 7)"})
        assert isinstance(result, CodeExecutionToolResultBlock)
        assert isinstance(result.content, CodeExecutionResultBlock)
        assert (result.content.stdout, result.content.return_code) == ("42", 0)
        assert first.container.id.startswith("cntr_")
        history = [*HELLO, {"role": "assistant", "content": first.content}, *HELLO]
        second = await ask(client, streamed=streamed, messages=history, tools=[CODE])
        assert second.content[1].content.stdout == "7", "the variables are still there"
        assert second.container.id == first.container.id
        assert ("", "42") in shown(backend)


@pytest.mark.usefixtures("sandbox")
async def test_a_container_is_named_by_its_id() -> None:
    stop: list[Chunk] = [TextDelta("42"), Finished("stop")]
    backend = model(
        called("python", '{"code": "x = 6"}'), stop, called("python", '{"code": "print(x)"}'), stop
    )
    async with serving(backend) as client:
        first = await ask(client, streamed=False, tools=[CODE])
        second = await ask(client, streamed=False, tools=[CODE], container=first.container.id)
        assert second.content[1].content.stdout == "6"
        with pytest.raises(anthropic.NotFoundError, match="was not found"):
            await ask(client, streamed=False, tools=[CODE], container="cntr_" + "0" * 44)


def connector(sdk_url: str, **members: Any) -> Any:
    return {"type": "url", "name": "sdk", "url": f"{sdk_url}/modern/mcp", **members}


BETAS = ["mcp-client-2025-11-20"]
ADD = '{"a":2,"b":3}'


@pytest.mark.requirement("HOSTED/compat-messages-mcp")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("toolset", [False, True])
async def test_the_mcp_connector_in_both_forms(sdk_url: str, streamed: bool, toolset: bool) -> None:
    stop: list[Chunk] = [TextDelta("5"), Finished("stop")]
    backend = model(called("add", ADD), stop, stop)
    if toolset:
        enabled = {"add": {"enabled": True}}
        tools: Any = [
            {
                "type": "mcp_toolset",
                "mcp_server_name": "sdk",
                "default_config": {"enabled": False},
                "configs": enabled,
            }
        ]
        params: Any = {"mcp_servers": [connector(sdk_url)], "tools": tools}
    else:
        only = {"enabled": True, "allowed_tools": ["add"]}
        params = {"mcp_servers": [connector(sdk_url, tool_configuration=only, authorization_token="s3cret")]}
    async with serving(backend) as client:
        first = await ask(client, streamed=streamed, betas=BETAS, **params)
        use, result, text = first.content
        assert isinstance(use, BetaMCPToolUseBlock)
        assert (use.name, use.server_name, use.input) == ("add", "sdk", {"a": 2, "b": 3})
        assert isinstance(result, BetaMCPToolResultBlock)
        assert result.tool_use_id == use.id
        assert not result.is_error
        assert not isinstance(result.content, str)
        assert [part.text for part in result.content] == ["5"]
        assert text.text == "5"
        assert [tool.name for tool in backend.turns[0].tools] == ["add"]
        saw = shown(backend)
        history = [*HELLO, {"role": "assistant", "content": first.content}, *HELLO]
        await ask(client, streamed=streamed, messages=history, betas=BETAS, **params)
    assert [text for _, text in shown(backend)] == [text for _, text in saw]


@pytest.mark.requirement("HOSTED/compat-messages-mcp")
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mcp_servers": [{"type": "url", "name": "s", "url": "http://169.254.169.254/mcp"}]}, "mcp_servers: Error retrieving tool list.*egress.allow"),
        ({"mcp_servers": [{"type": "url", "name": "s", "url": "http://a.example/"}] * 2}, r"mcp_servers\[1\].name"),
        ({"mcp_servers": [], "tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, "not in 'mcp_servers'"),
        ({"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, "'web_fetch_20250910' is not available"),
        ({"tools": [{**SEARCH, "allowed_domains": ["a.b"], "blocked_domains": ["c.d"]}]}, "Send one of them"),
        ({"tools": [{**SEARCH, "allowed_domains": ["https://a.b"]}]}, r"tools\[0\].allowed_domains\[0\]"),
        ({"tools": [{**SEARCH, "user_location": {"country": "France"}}]}, r"tools\[0\].user_location.country"),
    ],
)  # fmt: skip
async def test_declarations_that_cannot_be_served_are_refused(params: Any, message: str) -> None:
    async with serving(model(ANSWER)) as client:
        with pytest.raises(anthropic.APIStatusError, match=message) as refused:
            await ask(client, streamed=True, betas=BETAS, **params)
    assert refused.value.status_code in (400, 424)
