"""The official `openai` SDK on the chat endpoint: create, stream, parse, tools, errors."""

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
    reasoning_deltas = [(delta.model_extra or {}).get("reasoning_content") or "" for delta in deltas]
    assert "".join(reasoning_deltas) == "Let me think."
    assert chunks[-1].usage
    assert chunks[-1].usage.total_tokens == 12


@pytest.mark.requirement("PROTOCOL/compat-chat")
@pytest.mark.parametrize("model", ["echo", "tools", "json", "reasoning"])
async def test_the_strict_stream_helper_ends_with_the_result_of_create(
    client: openai.AsyncOpenAI, model: str
) -> None:
    async with client.chat.completions.stream(model=model, messages=HELLO, tools=[WEATHER]) as stream:
        async for _ in stream:
            pass
        streamed = (await stream.get_final_completion()).choices[0]
    complete = (await client.chat.completions.create(model=model, messages=HELLO, tools=[WEATHER])).choices[0]
    assert streamed.finish_reason == complete.finish_reason
    assert (streamed.message.content or "") == (complete.message.content or "")
    assert _calls(streamed.message) == _calls(complete.message)


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
    history: Any = [*HELLO, message.to_dict(), *outputs]
    second = await client.chat.completions.create(model="tools", messages=history, tools=[WEATHER])
    assert second.choices[0].message.content == "It is sun and rain."
    assert [sent["role"] for sent in upstream.requests[-1]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


@pytest.mark.requirement("PROTOCOL/compat-errors")
async def test_errors(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.RateLimitError, match=r"you are too fast|at its own request"):
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
    text = ""
    with pytest.raises(openai.APIError) as caught:
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
    assert text == "half"
    assert caught.value.code == "upstream_protocol_error"
