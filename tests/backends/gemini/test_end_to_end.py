"""Through the complete service: from settings to a fake upstream."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest
from msgspec import to_builtins

from antiphon import Antiphon, Settings
from antiphon.protocol.response import Response
from antiphon.settings import SealSettings, StoreSettings, UpstreamSettings
from tests import upstream as chat
from tests.backends.gemini.upstream import NO_SIGNATURE, Upstream, run_upstream
from tests.turn.folding import to_wire
from tests.turn.order import check_order

OLD = "gemini-2.5-flash"
NEW = "gemini-3-flash-preview"
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "How is it?"}]
THINKING: dict[str, Any] = {"effort": "low", "summary": "auto"}


@pytest.fixture(scope="module")
def gemini() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@pytest.fixture(scope="module")
def other() -> Generator[chat.Upstream, None, None]:
    with chat.run_upstream() as running:
        yield running


@pytest.fixture
async def antiphon(gemini: Upstream, other: chat.Upstream) -> AsyncGenerator[Antiphon, None]:
    settings = Settings(
        seal=SealSettings(key="test"),
        store=StoreSettings(url="memory:"),
        upstreams=(
            UpstreamSettings(kind="gemini", base_url=gemini.url, api_key="k", models=(OLD, NEW, "busy")),
            UpstreamSettings(kind="deepseek", base_url=other.url, models=("echo", "tools")),
        ),
    )
    async with Antiphon(settings) as service:
        yield service


async def create_response(antiphon: Antiphon, *, stream: bool, **params: Any) -> Response:
    if not stream:
        return await antiphon.create(**params)
    events = [event async for event in antiphon.stream(**params)]
    check_order([to_wire(event) for event in events])
    return events[-1].response  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]


def items_of(response: Response) -> list[dict[str, Any]]:
    return to_builtins(response.output)


def kinds(response: Response) -> list[str]:
    return [item["type"] for item in items_of(response)]


def text_of_response(response: Response) -> str:
    return "".join(
        part["text"] for item in items_of(response) if item["type"] == "message" for part in item["content"]
    )


def outputs(response: Response) -> list[dict[str, Any]]:
    """An output for each call."""
    return [
        {
            "type": "function_call_output",
            "call_id": item["call_id"],
            "output": f"sunny in {item['arguments']}",
        }
        for item in items_of(response)
        if item["type"] == "function_call"
    ]


def signatures(upstream: Upstream) -> list[str]:
    """The signatures of all parts of the last request, in order."""
    contents = upstream.requests[-1]["contents"]
    return [
        part["thoughtSignature"] for one in contents for part in one["parts"] if "thoughtSignature" in part
    ]


ON_CALL = 'sig-of-["get_weather", {"city": "Paris"}]'


@pytest.mark.parametrize("model", [OLD, NEW])
async def test_text_streamed_and_in_one_body(antiphon: Antiphon, model: str) -> None:
    streamed = await create_response(antiphon, stream=True, model=model, input="hi")
    complete = await create_response(antiphon, stream=False, model=model, input="hi")
    assert text_of_response(streamed) == text_of_response(complete) == "You said: hi"
    assert complete.usage is not None
    assert (complete.usage.input_tokens, complete.usage.input_tokens_details.cached_tokens) == (13, 4)
    assert complete.usage.output_tokens_details.reasoning_tokens == 2
    assert NEW in await antiphon.models()


@pytest.mark.parametrize("model", [OLD, NEW])
@pytest.mark.parametrize("stream", [True, False])
async def test_tools_two_rounds(antiphon: Antiphon, gemini: Upstream, model: str, stream: bool) -> None:
    options: dict[str, Any] = {"stream": stream, "model": model, "tools": [WEATHER]}
    first = await create_response(antiphon, **options, input="How is it?")
    calls = [item for item in items_of(first) if item["type"] == "function_call"]
    assert [item["arguments"] for item in calls] == ['{"city":"Paris"}', '{"city":"Rome"}']
    assert len({item["call_id"] for item in calls}) == 2
    second = await create_response(antiphon, **options, previous_response_id=first.id, input=outputs(first))
    assert text_of_response(second) == 'It is sunny in {"city":"Paris"} and sunny in {"city":"Rome"}.'
    third = await create_response(antiphon, **options, previous_response_id=second.id, input="And tomorrow?")
    assert len(outputs(third)) == 2
    fourth = await create_response(antiphon, **options, previous_response_id=third.id, input=outputs(third))
    assert text_of_response(fourth).startswith("It is sunny")
    assert len(gemini.requests[-1]["contents"]) == 7
    assert to_builtins(fourth).get("downgrades") is None


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("reasoning", [None, THINKING])
async def test_signatures_come_back_with_their_parts(
    antiphon: Antiphon, gemini: Upstream, stream: bool, reasoning: Any
) -> None:
    options: dict[str, Any] = {"stream": stream, "model": NEW, "tools": [WEATHER], "reasoning": reasoning}
    stored = await create_response(antiphon, **options, input=QUESTION)
    leading_types = ["reasoning"] if reasoning else []
    assert kinds(stored) == [*leading_types, "message", "reasoning", "function_call", "function_call"]
    if reasoning:
        assert items_of(stored)[0]["summary"][0]["text"] == "Thought 1."
    answer = await create_response(antiphon, **options, input=outputs(stored), previous_response_id=stored.id)
    assert signatures(gemini) == [ON_CALL]
    handed = gemini.requests[-1]["contents"]
    last = await create_response(antiphon, **options, input="And now?", previous_response_id=answer.id)
    assert [ON_CALL, "sig-of-" if stream else f"sig-of-{text_of_response(answer)}"] == signatures(gemini)
    assert to_builtins(last).get("downgrades") is None or reasoning

    client_side_response = await create_response(antiphon, **options, input=QUESTION, store=False)
    history = [*QUESTION, *items_of(client_side_response), *outputs(client_side_response)]
    await create_response(antiphon, **options, input=history, store=False)
    assert gemini.requests[-1]["contents"] == handed


@pytest.mark.parametrize("stream", [True, False])
async def test_a_switch_to_another_model_and_back(
    antiphon: Antiphon, gemini: Upstream, other: chat.Upstream, stream: bool
) -> None:
    options: dict[str, Any] = {"stream": stream, "tools": [WEATHER], "reasoning": THINKING}
    first = await create_response(antiphon, model=NEW, input="How is it?", **options)
    second = await create_response(
        antiphon, model="echo", previous_response_id=first.id, input=outputs(first), **options
    )
    assert "sig-of" not in str(other.requests[-1])
    assert len(other.requests[-1]["messages"][1]["tool_calls"]) == 2
    third = await create_response(
        antiphon, model=NEW, previous_response_id=second.id, input="And now?", **options
    )
    assert signatures(gemini) == [ON_CALL]
    assert third.status == "completed"


async def test_calls_of_another_model_are_answered(antiphon: Antiphon, gemini: Upstream) -> None:
    first = await antiphon.create(model="tools", input="How is it?", tools=[WEATHER])
    second = await antiphon.create(
        model=NEW, previous_response_id=first.id, input=outputs(first), tools=[WEATHER]
    )
    assert text_of_response(second).startswith("It is sunny")
    assert signatures(gemini) == [NO_SIGNATURE]
    assert any("another's" in note for note in to_builtins(second)["downgrades"])


async def test_a_client_that_drops_reasoning_gets_an_answer(antiphon: Antiphon, gemini: Upstream) -> None:
    options: dict[str, Any] = {"model": NEW, "tools": [WEATHER], "store": False}
    first = await antiphon.create(**options, input=QUESTION)
    without_reasoning = [item for item in items_of(first) if item["type"] != "reasoning"]
    second = await antiphon.create(**options, input=[*QUESTION, *without_reasoning, *outputs(first)])
    assert text_of_response(second).startswith("It is sunny")
    assert signatures(gemini) == [NO_SIGNATURE]


async def test_a_tool_of_another_kind(antiphon: Antiphon, gemini: Upstream) -> None:
    tools = [{"type": "custom", "name": "free", "description": "Free text."}]
    await antiphon.create(model=NEW, input="How is it?", tools=tools)
    (declared,) = gemini.requests[-1]["tools"][0]["functionDeclarations"]
    assert declared["name"] == "free"
    assert "input" in declared["parametersJsonSchema"]["properties"]


async def test_a_schema_is_sent(antiphon: Antiphon, gemini: Upstream) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = {"type": "json_schema", "name": "x", "schema": schema}
    await antiphon.create(model=NEW, input="hi", text={"format": form})
    assert gemini.requests[-1]["generationConfig"]["responseJsonSchema"] == schema
