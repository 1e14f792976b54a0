"""The official `openai` SDK through the chat door: create, stream, parse, tools, errors."""

from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]

HELLO: Any = [{"role": "user", "content": "hello"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


class Person(BaseModel):
    name: str
    year: int


@pytest.mark.requirement("PROTOCOL/compat-chat")
async def test_create(client: openai.AsyncOpenAI) -> None:
    completion = await client.chat.completions.create(model="echo", messages=HELLO)
    assert completion.choices[0].message.content == "You said: hello"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage
    assert completion.usage.total_tokens == 12


async def test_a_stream(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="reasoning", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Done."
    thoughts = [(delta.model_extra or {}).get("reasoning_content") or "" for delta in deltas]
    assert "".join(thoughts) == "Let me think."
    assert chunks[-1].usage
    assert chunks[-1].usage.total_tokens == 12


@pytest.mark.requirement("PROTOCOL/compat-chat")
@pytest.mark.parametrize("model", ["echo", "tools", "json", "reasoning"])
async def test_the_strict_stream_helper_ends_with_what_create_returns(
    client: openai.AsyncOpenAI, model: str
) -> None:
    async with client.chat.completions.stream(model=model, messages=HELLO, tools=[WEATHER]) as stream:
        async for _ in stream:
            pass
        streamed = (await stream.get_final_completion()).choices[0]
    whole = (await client.chat.completions.create(model=model, messages=HELLO, tools=[WEATHER])).choices[0]
    assert streamed.finish_reason == whole.finish_reason
    assert (streamed.message.content or "") == (whole.message.content or "")
    assert _calls(streamed.message) == _calls(whole.message)


def _calls(message: Any) -> list[tuple[str, str, str]]:
    calls = message.tool_calls or ()
    return [(call.id, call.function.name, call.function.arguments) for call in calls]


async def test_parse(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    completion = await client.chat.completions.parse(model="json", messages=HELLO, response_format=Person)
    assert completion.choices[0].message.parsed == Person(name="Ada", year=1815)
    assert upstream.requests[-1]["response_format"]["type"] == "json_schema"


@pytest.mark.requirement("PROTOCOL/compat-chat")
async def test_a_tool_loop(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    first = await client.chat.completions.create(model="tools", messages=HELLO, tools=[WEATHER])
    message = first.choices[0].message
    assert message.tool_calls
    outputs: Any = [
        {"role": "tool", "tool_call_id": call.id, "content": city}
        for call, city in zip(message.tool_calls, ("sun", "rain"), strict=True)
    ]
    said: Any = [*HELLO, message.to_dict(), *outputs]
    second = await client.chat.completions.create(model="tools", messages=said, tools=[WEATHER])
    assert second.choices[0].message.content == "It is sun and rain."
    assert [sent["role"] for sent in upstream.requests[-1]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


@pytest.mark.requirement("PROTOCOL/compat-errors")
async def test_errors(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.RateLimitError, match="you are too fast"):
        await client.chat.completions.create(model="refuses", messages=HELLO)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="echo", messages=HELLO, n=2)
    assert caught.value.param == "n"
    with pytest.raises(openai.BadRequestError, match="POST /v1/responses"):
        await client.chat.completions.create(
            model="echo", messages=HELLO, extra_body={"previous_response_id": "resp_1"}
        )


async def test_a_stream_that_breaks_off(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(model="breaks", messages=HELLO, stream=True)
    said = ""
    with pytest.raises(openai.APIError) as caught:
        async for chunk in stream:
            said += chunk.choices[0].delta.content or ""
    assert said == "half"
    assert caught.value.code == "upstream_protocol_error"
