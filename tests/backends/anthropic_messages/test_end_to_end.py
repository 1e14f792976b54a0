"""Through the complete service: from settings to a fake upstream."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest
from msgspec import to_builtins

from antiphon import Antiphon, Settings
from antiphon.protocol.response import Response
from antiphon.settings import SealSettings, StoreSettings, UpstreamSettings
from tests import upstream as chat
from tests.backends.anthropic_messages.upstream import Upstream, run_upstream
from tests.turn.folding import to_wire
from tests.turn.order import check_order

BUDGET = "claude-sonnet-4-5"
ADAPTIVE = "claude-opus-4-6"
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
EFFORT: dict[str, Any] = {"effort": "low"}


@pytest.fixture(scope="module")
def claude() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@pytest.fixture(scope="module")
def other() -> Generator[chat.Upstream, None, None]:
    with chat.run_upstream() as running:
        yield running


@pytest.fixture
async def antiphon(claude: Upstream, other: chat.Upstream) -> AsyncGenerator[Antiphon, None]:
    settings = Settings(
        seal=SealSettings(key="test"),
        store=StoreSettings(url="memory:"),
        upstreams=(
            UpstreamSettings(
                kind="anthropic",
                base_url=claude.url,
                api_key="k",
                models=(BUDGET, ADAPTIVE, "claude-opus-5", "busy"),
            ),
            UpstreamSettings(kind="deepseek", base_url=other.url, models=("echo", "tools")),
        ),
    )
    async with Antiphon(settings) as service:
        yield service


def items_of(response: Response) -> list[dict[str, Any]]:
    return to_builtins(response.output)


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


def blocks(upstream: Upstream, message: int) -> list[str]:
    """The block types of a message of the last request."""
    return [block["type"] for block in upstream.requests[-1]["messages"][message]["content"]]


async def test_text_streamed_and_in_one_body(antiphon: Antiphon) -> None:
    events = [to_wire(event) async for event in antiphon.stream(model=ADAPTIVE, input="hi")]
    check_order(events)
    complete = await antiphon.create(model=ADAPTIVE, input="hi")
    assert (
        events[-1]["response"]["output"][0]["content"][0]["text"]
        == text_of_response(complete)
        == "You said: hi"
    )
    assert complete.usage is not None
    assert (complete.usage.input_tokens, complete.usage.input_tokens_details.cached_tokens) == (13, 4)
    assert "claude-opus-5" in await antiphon.models()


async def test_tools_two_rounds(antiphon: Antiphon, claude: Upstream) -> None:
    first = await antiphon.create(model=ADAPTIVE, input="How is it?", tools=[WEATHER])
    assert [item["type"] for item in items_of(first)] == ["message", "function_call", "function_call"]
    assert [item["arguments"] for item in items_of(first)[1:]] == ['{"city":"Paris"}', '{"city":"Rome"}']
    second = await antiphon.create(
        model=ADAPTIVE, previous_response_id=first.id, input=outputs(first), tools=[WEATHER]
    )
    assert text_of_response(second) == 'It is sunny in {"city":"Paris"} and sunny in {"city":"Rome"}.'
    third = await antiphon.create(
        model=ADAPTIVE, previous_response_id=second.id, input="And tomorrow?", tools=[WEATHER]
    )
    assert len(outputs(third)) == 2
    fourth = await antiphon.create(model=ADAPTIVE, previous_response_id=third.id, input=outputs(third))
    assert text_of_response(fourth).startswith("It is sunny")
    assert len(claude.requests[-1]["messages"]) == 7


@pytest.mark.parametrize("model", [BUDGET, ADAPTIVE])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("summary", [None, "auto"])
async def test_thinking_is_sent_back_with_its_signatures(
    antiphon: Antiphon, claude: Upstream, model: str, stream: bool, summary: str | None
) -> None:
    options: dict[str, Any] = {
        "model": model,
        "tools": [WEATHER],
        "reasoning": {**EFFORT, "summary": summary},
    }
    question = [{"role": "user", "content": "How is it?"}]

    async def ask_model(**params: Any) -> Response:
        if not stream:
            return await antiphon.create(**options, **params)
        last = [event async for event in antiphon.stream(**options, **params)][-1]
        return last.response  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]

    stored = await ask_model(input=question)
    shown = items_of(stored)[0]
    assert shown["type"] == "reasoning"
    assert (shown["summary"] if summary else shown["content"])[0]["text"] == "Thought 1."
    await ask_model(input=outputs(stored), previous_response_id=stored.id)
    assert blocks(claude, 1) == ["thinking", "text", "tool_use", "tool_use"]
    handed = claude.requests[-1]["messages"]

    client_side_response = await ask_model(input=question, store=False)
    history = [*question, *items_of(client_side_response), *outputs(client_side_response)]
    final = await ask_model(input=history, store=False)
    assert claude.requests[-1]["messages"] == handed
    assert items_of(final)[0]["type"] == "reasoning"


async def test_the_envelope_is_enough(antiphon: Antiphon, claude: Upstream) -> None:
    options: dict[str, Any] = {"model": BUDGET, "tools": [WEATHER], "reasoning": EFFORT, "store": False}
    first = await antiphon.create(**options, input="How is it?", include=["reasoning.encrypted_content"])
    reasoning, *rest = items_of(first)
    history: list[Any] = [
        {"role": "user", "content": "How is it?"},
        {**reasoning, "content": []},
        *rest,
        *outputs(first),
    ]
    await antiphon.create(**options, input=history)
    assert claude.requests[-1]["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "Thought 1.",
        "signature": "sig-of-Thought 1.",
    }


async def test_a_switch_to_another_model_and_back(
    antiphon: Antiphon, claude: Upstream, other: chat.Upstream
) -> None:
    options: dict[str, Any] = {"tools": [WEATHER], "reasoning": EFFORT}
    first = await antiphon.create(model=BUDGET, input="How is it?", **options)
    second = await antiphon.create(
        model="echo", previous_response_id=first.id, input=outputs(first), **options
    )
    calling = other.requests[-1]["messages"][1]
    assert calling["reasoning_content"] == "Thought 1."  # the text is sent, the signature is not
    assert "sig-of" not in str(other.requests[-1])
    third = await antiphon.create(model=BUDGET, previous_response_id=second.id, input="And now?", **options)
    assert blocks(claude, 1) == ["thinking", "text", "tool_use", "tool_use"]
    assert items_of(third)[0]["type"] == "reasoning"


async def test_calls_of_another_model_are_answered_without_thinking(
    antiphon: Antiphon, claude: Upstream
) -> None:
    options: dict[str, Any] = {"tools": [WEATHER], "reasoning": EFFORT}
    first = await antiphon.create(model="tools", input="How is it?", **options)
    second = await antiphon.create(
        model=BUDGET, previous_response_id=first.id, input=outputs(first), **options
    )
    assert text_of_response(second).startswith("It is sunny")
    assert "thinking" not in claude.requests[-1]
    assert any("another model" in note for note in to_builtins(second)["downgrades"])


async def test_a_schema_is_sent(antiphon: Antiphon, claude: Upstream) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "name": "x", "schema": schema, "strict": True}
    answer = await antiphon.create(model="claude-opus-5", input="hi", text={"format": form})
    assert text_of_response(answer) == '{"a": "hi"}'
    assert claude.requests[-1]["output_config"]["format"] == {"type": "json_schema", "schema": schema}
