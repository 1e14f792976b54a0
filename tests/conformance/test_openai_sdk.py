"""The official `openai` SDK: create, stream, parse, tools, errors."""

from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.turn.order import check_order
from tests.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
MODELS = ["echo", "tools", "reasoning", "json", "short"]


class Person(BaseModel):
    name: str
    year: int


async def test_create(client: openai.AsyncOpenAI) -> None:
    response = await client.responses.create(model="echo", input="hello", instructions="Be brief.")
    assert response.output_text == "You said: hello"
    assert response.status == "completed"
    assert response.usage
    assert response.usage.total_tokens == 12


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.requirement("PROTOCOL/order-message")
async def test_every_event_is_in_order(client: openai.AsyncOpenAI, model: str) -> None:
    events: list[dict[str, Any]] = []
    stream = await client.responses.create(model=model, input="hello", tools=[WEATHER], stream=True)
    async for event in stream:
        events.append(event.model_dump(mode="json", exclude_unset=True))
    check_order(events)


@pytest.mark.parametrize("model", ["echo", "tools", "reasoning", "json"])
@pytest.mark.requirement("PROTOCOL/stream-fold")
async def test_the_strict_stream_helper_ends_with_the_result_of_create(
    client: openai.AsyncOpenAI, model: str
) -> None:
    async with client.responses.stream(model=model, input="hello", tools=[WEATHER]) as stream:
        async for _ in stream:
            pass
        streamed = await stream.get_final_response()
    complete = await client.responses.create(model=model, input="hello", tools=[WEATHER])
    assert streamed.status == complete.status
    assert streamed.output_text == complete.output_text
    assert [item.type for item in streamed.output] == [item.type for item in complete.output]
    assert streamed.usage == complete.usage


@pytest.mark.requirement("PROTOCOL/create-json-schema")
async def test_parse(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    response = await client.responses.parse(model="json", input="Who?", text_format=Person)
    assert response.output_parsed == Person(name="Ada", year=1815)
    assert upstream.requests[-1]["response_format"]["type"] == "json_schema"


@pytest.mark.requirement("PROTOCOL/create-json-schema")
async def test_parse_while_streaming(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model="json", input="Who?", text_format=Person) as stream:
        final = await stream.get_final_response()
    assert final.output_parsed == Person(name="Ada", year=1815)


@pytest.mark.requirement("PROTOCOL/tools-continue")
async def test_a_tool_loop_by_previous_response(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    first = await client.responses.create(model="tools", input="Weather?", tools=[WEATHER])
    calls = [item for item in first.output if item.type == "function_call"]
    assert [call.name for call in calls] == ["get_weather", "get_weather"]
    outputs: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": weather}
        for call, weather in zip(calls, ["sunny", "rainy"], strict=True)
    ]
    second = await client.responses.create(model="tools", input=outputs, previous_response_id=first.id)
    assert second.output_text == "It is sunny and rainy."
    assert [tool["function"]["name"] for tool in upstream.requests[-1]["tools"]] == ["get_weather"]


@pytest.mark.requirement("PROTOCOL/tools-round-trip")
async def test_a_tool_loop_by_sending_everything_again(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="tools", input="Weather?", tools=[WEATHER], store=False)
    history: Any = [{"role": "user", "content": "Weather?"}, *first.output]
    for call in first.output:
        if call.type == "function_call":
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": "fine"})
    second = await client.responses.create(model="tools", input=history, tools=[WEATHER], store=False)
    assert second.output_text == "It is fine and fine."


@pytest.mark.requirement("PROTOCOL/items-reasoning-sealed")
async def test_sealed_reasoning_can_be_sent_back(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(
        model="reasoning", input="Think.", store=False, include=["reasoning.encrypted_content"]
    )
    reasoning = first.output[0]
    assert reasoning.type == "reasoning"
    assert reasoning.encrypted_content
    assert reasoning.content
    assert reasoning.content[0].text == "Let me think."
    replay: Any = [*first.output, {"role": "user", "content": "go on"}]
    again = await client.responses.create(model="echo", input=replay, store=False)
    assert again.output_text == "You said: go on"


@pytest.mark.requirement("PROTOCOL/create-images")
async def test_an_image(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    picture = "data:image/png;base64,iVBORw0KGgo="
    content: Any = [{"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": picture}]
    await client.responses.create(model="echo", input=[{"role": "user", "content": content}])
    parts = upstream.requests[-1]["messages"][-1]["content"]
    assert parts[1]["image_url"]["url"] == picture


@pytest.mark.requirement("PROTOCOL/create-max-output-tokens")
async def test_length_is_incomplete(client: openai.AsyncOpenAI) -> None:
    response = await client.responses.create(model="short", input="x")
    assert response.status == "incomplete"
    assert response.incomplete_details
    assert response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.requirement("PROTOCOL/endpoints-models")
async def test_models(client: openai.AsyncOpenAI) -> None:
    listed = [model async for model in client.models.list()]
    answering = [model.id for model in listed if (model.model_extra or {}).get("kind") != "embedding"]
    assert answering == ["echo", "tools"]
    assert (await client.models.retrieve("echo")).id == "echo"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nope")


@pytest.mark.requirement("PROTOCOL/errors-sdk")
async def test_errors_raise_the_sdks_exceptions(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        await client.responses.create(model="echo", input="x", temperature=9)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError, match="Previous response with id 'resp_nope' not found"):
        await client.responses.create(model="echo", input="x", previous_response_id="resp_nope")
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve("resp_nope")
    with pytest.raises(openai.RateLimitError, match=r"you are too fast|at its own request"):
        await client.responses.create(model="refuses", input="x", stream=True)


@pytest.mark.requirement("PROTOCOL/stream-error-sdk")
async def test_an_error_in_mid_stream_raises(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.APIError, match="broke off"):
        async with client.responses.stream(model="breaks", input="x") as stream:
            async for _ in stream:
                pass


async def test_an_upstream_error_without_a_stream_is_a_502(client: openai.AsyncOpenAI) -> None:
    for model in ("breaks", "html"):
        with pytest.raises(openai.InternalServerError) as caught:
            await client.responses.create(model=model, input="x")
        assert caught.value.status_code == 502


async def test_no_client_headers_reach_the_upstream(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    await client.responses.create(model="echo", input="x", extra_headers={"x-secret": "s", "cookie": "c=1"})
    sent = {name.lower() for name in upstream.headers[-1]}
    assert not sent & {"authorization", "cookie", "x-secret", "x-stainless-lang"}
