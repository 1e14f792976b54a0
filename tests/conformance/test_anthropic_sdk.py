"""The official `anthropic` SDK: create, stream, tools, thinking, structured output, counting, errors."""

from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import pytest
from anthropic.types import TextBlock, ThinkingBlock, ToolUseBlock
from pydantic import BaseModel

from tests.serving import Served
from tests.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]

HELLO: Any = [{"role": "user", "content": "hello"}]
WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class Person(BaseModel):
    name: str
    year: int


@pytest.fixture
async def claude(server: Served) -> AsyncGenerator[Any, None]:
    base_url = server.base_url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.requirement("PROTOCOL/compat-messages")
async def test_create(claude: Any, upstream: Upstream) -> None:
    message = await claude.messages.create(
        model="echo", max_tokens=50, system="Be brief.", messages=HELLO, extra_body={"temperature": 0.5}
    )
    [block] = message.content
    assert isinstance(block, TextBlock)
    assert block.text == "You said: hello"
    assert (message.stop_reason, message.model) == ("end_turn", "echo")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (7, 5)
    assert message._request_id
    sent = upstream.requests[-1]
    assert (sent["max_tokens"], sent["temperature"]) == (50, 0.5)
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.requirement("PROTOCOL/compat-messages")
@pytest.mark.parametrize("model", ["echo", "tools", "reasoning", "short"])
async def test_the_stream_helper_ends_with_what_create_returns(claude: Any, model: str) -> None:
    params: Any = {"model": model, "max_tokens": 50, "messages": HELLO, "tools": [WEATHER]}
    async with claude.messages.stream(**params) as stream:
        kinds = [event.type async for event in stream]
        streamed = await stream.get_final_message()
    complete = await claude.messages.create(**params)
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert streamed.stop_reason == complete.stop_reason
    assert (streamed.usage.input_tokens, streamed.usage.output_tokens) == (7, 5)
    assert [_comparable(block) for block in streamed.content] == [
        _comparable(block) for block in complete.content
    ]


def _comparable(block: Any) -> dict[str, Any]:
    """The content of a block; signatures are never equal, and the helper adds parsed values."""
    hidden = {"signature", "citations", "parsed_output", "caller"}
    return {name: value for name, value in block.to_dict().items() if name not in hidden}


@pytest.mark.requirement("PROTOCOL/compat-messages")
async def test_a_tool_loop(claude: Any, upstream: Upstream) -> None:
    params: Any = {"model": "tools", "max_tokens": 50, "tools": [WEATHER]}
    first = await claude.messages.create(messages=HELLO, **params)
    calls = [block for block in first.content if isinstance(block, ToolUseBlock)]
    assert first.stop_reason == "tool_use"
    assert [call.input for call in calls] == [{"city": "Paris"}, {"city": "Rome"}]
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": weather}
        for call, weather in zip(calls, ("sun", "rain"), strict=True)
    ]
    history: Any = [
        *HELLO,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": results},
    ]
    second = await claude.messages.create(messages=history, **params)
    assert isinstance(second.content[0], TextBlock)
    assert second.content[0].text == "It is sun and rain."
    assert [sent["role"] for sent in upstream.requests[-1]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


async def test_a_thought_comes_back(claude: Any) -> None:
    params: Any = {
        "model": "reasoning",
        "max_tokens": 2048,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    async with claude.messages.stream(messages=HELLO, **params) as stream:
        first = await stream.get_final_message()
    thinking_block, text = first.content
    assert isinstance(thinking_block, ThinkingBlock)
    assert thinking_block.thinking == "Let me think."
    assert thinking_block.signature.startswith("antiphon2.")
    assert isinstance(text, TextBlock)
    history: Any = [*HELLO, {"role": "assistant", "content": first.content}, *HELLO]
    second = await claude.messages.create(messages=history, **params)
    assert "signatures of thoughts" not in second.to_json()
    history[1] = {"role": "assistant", "content": [{**thinking_block.to_dict(), "signature": "EqQBCg"}, text]}
    foreign = await claude.messages.create(messages=history, **params)
    assert "signatures of thoughts that were not made here are ignored" in foreign.downgrades


async def test_parse(claude: Any, upstream: Upstream) -> None:
    message = await claude.messages.parse(model="json", max_tokens=50, messages=HELLO, output_format=Person)
    assert message.parsed_output == Person(name="Ada", year=1815)
    assert upstream.requests[-1]["response_format"]["type"] == "json_schema"


async def test_stop_sequences(claude: Any) -> None:
    params: Any = {"model": "echo", "max_tokens": 50, "messages": HELLO, "stop_sequences": [" hel"]}
    complete = await claude.messages.create(**params)
    async with claude.messages.stream(**params) as stream:
        streamed = await stream.get_final_message()
    for message in (complete, streamed):
        assert isinstance(message.content[0], TextBlock)
        assert message.content[0].text == "You said:"
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", " hel")


@pytest.mark.requirement("PROTOCOL/compat-count-tokens")
async def test_a_count_and_the_models(claude: Any) -> None:
    count = await claude.messages.count_tokens(model="echo", messages=HELLO, tools=[WEATHER])
    assert count.input_tokens > 10
    models = [model.id async for model in claude.models.list(limit=1)]
    assert models == ["echo", "tools"]
    assert (await claude.models.retrieve("echo")).display_name == "echo"


@pytest.mark.requirement("PROTOCOL/compat-errors")
async def test_errors(claude: Any) -> None:
    params: Any = {"max_tokens": 50, "messages": HELLO}
    with pytest.raises(anthropic.RateLimitError, match=r"you are too fast|at its own request") as limited:
        await claude.messages.create(model="refuses", **params)
    assert 50 < int(limited.value.response.headers["retry-after"]) <= 60
    with pytest.raises(anthropic.BadRequestError, match=r"'tool_choice' names the function 'none'"):
        await claude.messages.create(model="echo", tool_choice={"type": "tool", "name": "none"}, **params)
    with pytest.raises(anthropic.BadRequestError, match="POST /v1/responses"):
        await claude.messages.create(model="echo", extra_body={"input": "hi"}, **params)
    with pytest.raises(anthropic.NotFoundError, match="does not exist here"):
        await claude.models.retrieve("none")


async def test_a_stream_that_breaks_off(claude: Any) -> None:
    received = ""
    with pytest.raises(anthropic.APIStatusError, match="api_error"):
        async with claude.messages.stream(model="breaks", max_tokens=50, messages=HELLO) as stream:
            async for text in stream.text_stream:
                received += text
    assert received == "half"
