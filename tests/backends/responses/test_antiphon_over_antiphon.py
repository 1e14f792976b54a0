"""One Antiphon with another as its upstream, over real HTTP: both must agree on the protocol."""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest
from msgspec import to_builtins

from antiphon import Antiphon, ScriptedBackend, Settings
from antiphon.backends.scripted import Step
from antiphon.errors import AntiphonError, BackendRefused, BackendTimeout
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Response, Usage
from antiphon.service.routing.router import Route
from antiphon.settings import SealSettings, ServerSettings, StoreSettings, UpstreamSettings
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Failed,
    Finished,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest
from antiphon.turn.provider_state import OpenedReasoning, ProviderState
from antiphon.wiring import build_app
from tests.turn.folding import to_wire
from tests.turn.order import check_order
from tests.uvicorn_here import serve_here

KEY = "sk-behind-0123456789"
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
USAGE = Usage(3, InputTokensDetails(1), 5, OutputTokensDetails(2), 8)


def steps_for(turn: TurnRequest) -> Iterable[Step]:
    """The steps of the model behind both servers, by its name."""
    names = [tool.name for tool in turn.tools]
    match turn.model:
        case "calls" if not isinstance(turn.items[-1], FunctionCallOutput):
            yield [TextDelta("Let me see.")]
            for index, name in enumerate(names):
                yield [CallStarted(index, f"call_{index}", name), CallDelta(index, ARGUMENTS[name])]
                yield [CallFinished(index)]
            yield [Finished("tool_calls")]
        case "thinks":
            yield [
                ReasoningDelta("Hm"),
                ReasoningDelta("m."),
                ProviderStateAdded(ProviderState("deep", {"sig": "s1"})),
            ]
            yield [TextDelta(seen(turn)), Finished("stop")]
        case "summarises":
            yield [ReasoningSummaryDelta("One.", 0), ReasoningSummaryDelta("Two.", 1)]
            yield [TextDelta("Done."), Finished("stop")]
        case "everything":
            yield [ItemBegun("commentary"), TextDelta("I look. "), ItemBegun("final_answer")]
            yield [
                TextDelta("See"),
                AnnotationAdded({"type": "url_citation", "url": "u"}),
                RefusalDelta("No."),
            ]
            yield [UsageReported(USAGE), Finished("length")]
        case "json":
            yield [TextDelta('{"name":'), TextDelta('"Ada"}'), Finished("stop")]
        case "too-long":
            yield BackendRefused("Too long.", status=400, code="context_length_exceeded", param="input")
        case "breaks":
            yield [TextDelta("Half")]
            yield [Failed(BackendTimeout("It took too long."))]
        case _:
            yield [TextDelta("You said: "), TextDelta(seen(turn)), UsageReported(USAGE), Finished("stop")]


ARGUMENTS = {
    "get_weather": '{"city":"Oslo"}',
    "patch": '{"input":"*** a\\n\\"b\\" é"}',
    "time__now": "{}",
    "apply_patch": '{"type":"update_file","path":"a","diff":"+x"}',
    "shell": '{"commands":["ls","pwd"],"timeout_ms":5}',
    "local_shell": '{"command":["ls"]}',
    "computer": '{"actions":[{"type":"wait"}]}',
    "tool_search": '{"query":"mail"}',
}


def seen(turn: TurnRequest) -> str:
    return " | ".join(filter(None, map(_seen, turn.items)))


def _seen(item: Item) -> str:
    match item:
        case Message():
            parts = item.content if isinstance(item.content, str) else to_builtins(item.content)
            return parts if isinstance(parts, str) else " ".join(part.get("text", "") for part in parts)
        case FunctionCall():
            return f"{item.name}({item.arguments})"
        case FunctionCallOutput():
            return f"={item.output}"
        case OpenedReasoning():
            text = "".join(part.text for part in item.content or ())
            return f"thought {text} {item.states_from('deep')}"
        case _:
            return type(item).__name__


@pytest.fixture
async def upstream_server() -> AsyncGenerator[tuple[ScriptedBackend, str], None]:
    backend = ScriptedBackend(steps_for)
    settings = Settings(
        seal=SealSettings(key="behind"),
        store=StoreSettings(url="memory:"),
        server=ServerSettings(api_keys=(KEY,)),
    )
    names = ("echo", "calls", "thinks", "summarises", "everything", "json", "too-long", "breaks")
    routes = [Route(name, backend, context_window=4096) for name in names]
    async with serve_here(lambda: build_app(settings, routes=routes)) as here:
        yield backend, f"http://127.0.0.1:{here.port}/v1"


def in_front(url: str, api_key: str = KEY) -> Antiphon:
    upstream = UpstreamSettings(kind="antiphon", base_url=url, api_key=api_key, models=("*",), retries=0)
    settings = Settings(
        seal=SealSettings(key="front"), store=StoreSettings(url="memory:"), upstreams=(upstream,)
    )
    return Antiphon(settings)


@pytest.fixture
async def front(upstream_server: tuple[ScriptedBackend, str]) -> AsyncGenerator[Antiphon, None]:
    async with in_front(upstream_server[1]) as service:
        yield service


async def both(antiphon: Antiphon, **params: Any) -> dict[str, Any]:
    """The response, streamed and in one body, after checking that both are equal."""
    events = [to_wire(event) async for event in antiphon.stream(**params)]
    check_order(events)
    complete = to_builtins(await antiphon.create(**params))
    streamed = events[-1]["response"]
    assert _bare(complete["output"]) == _bare(streamed["output"])
    assert (complete["usage"], complete["status"]) == (streamed["usage"], streamed["status"])
    return complete


def _bare(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sealed = ("id", "encrypted_content")
    return [{name: value for name, value in item.items() if name not in sealed} for item in output]


def text_of(response: Response) -> str:
    return "".join(
        part.get("text", "")
        for item in to_builtins(response.output)
        if item["type"] == "message"
        for part in item["content"]
    )


async def test_text_usage_models_and_windows(front: Antiphon) -> None:
    response = await both(front, model="echo", input="hi", instructions="Be kind.", metadata={"a": "b"})
    assert response["output"][0]["content"][0]["text"] == "You said: hi"
    assert response["usage"]["input_tokens_details"] == {"cached_tokens": 1, "cache_write_tokens": 0}
    assert "downgrades" not in response
    assert {"echo", "thinks"} <= set(await front.models())


async def test_the_history_is_sent_and_the_upstream_stores_nothing(
    front: Antiphon, upstream_server: tuple[ScriptedBackend, str]
) -> None:
    first = await front.create(model="echo", input="one")
    second = await front.create(model="echo", input="two", previous_response_id=first.id)
    assert text_of(second) == "You said: one | You said: one | two"
    turn = upstream_server[0].turns[-1]
    assert turn.params.store is False
    assert turn.params.previous_response_id is None


async def test_every_kind_of_call_and_its_output(front: Antiphon) -> None:
    tools = [
        WEATHER,
        {"type": "custom", "name": "patch"},
        {"type": "namespace", "name": "time", "tools": [{"type": "function", "name": "now"}]},
        {"type": "apply_patch"},
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "local_shell"},
        {"type": "computer"},
        {"type": "tool_search", "execution": "client"},
    ]
    response = await both(front, model="calls", input="go", tools=tools)
    message, *calls = _bare(response["output"])
    assert message["content"][0]["text"] == "Let me see."
    assert [call["call_id"] for call in calls] == [f"call_{index}" for index in range(8)]
    assert {call["status"] for call in calls} == {"completed"}
    weather, patch, now, apply_patch, shell, local_shell, computer, search = calls
    assert (weather["type"], weather["arguments"]) == ("function_call", '{"city":"Oslo"}')
    assert (patch["type"], patch["input"]) == ("custom_tool_call", '*** a\n"b" é')
    assert (now["namespace"], now["name"]) == ("time", "now")
    assert apply_patch["operation"] == {"type": "update_file", "path": "a", "diff": "+x"}
    assert shell["action"]["commands"] == ["ls", "pwd"]
    assert shell["environment"] == {"type": "local"}
    assert local_shell["action"]["command"] == ["ls"]
    assert computer["actions"] == [{"type": "wait"}]
    assert (search["execution"], search["arguments"]) == ("client", {"query": "mail"})

    outputs: list[dict[str, Any]] = [
        {"type": "function_call_output", "call_id": "call_0", "output": "rain"},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "patched"},
        {"type": "function_call_output", "call_id": "call_2", "output": "noon"},
        {"type": "apply_patch_call_output", "call_id": "call_3", "status": "completed", "output": "ok"},
        {"type": "shell_call_output", "call_id": "call_4", "output": []},
        {"type": "local_shell_call_output", "call_id": "call_5", "output": "a.txt"},
        {
            "type": "computer_call_output",
            "call_id": "call_6",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aQ=="},
        },
        {"type": "tool_search_output", "call_id": "call_7", "execution": "client", "tools": [WEATHER]},
    ]
    stored = await front.create(model="calls", input="go", tools=tools)
    again = await front.create(model="calls", previous_response_id=stored.id, input=outputs, tools=tools[:-1])
    answer_text = text_of(again)
    assert "get_weather({" in answer_text
    assert 'patch({"input":"*** a\\n\\"b\\" é"})' in answer_text
    for output in ("=rain", "=patched", "=noon", "The patch was applied.", "=a.txt"):
        assert output in answer_text


async def test_reasoning_survives_both(front: Antiphon, upstream_server: tuple[ScriptedBackend, str]) -> None:
    first = await front.create(model="thinks", input="one")
    reasoning = to_builtins(first.output)[0]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Hmm."}]
    second = await front.create(model="thinks", input="two", previous_response_id=first.id)
    assert text_of(second) == "one | thought Hmm. [{'sig': 's1'}] | one | two"

    options: dict[str, Any] = {"model": "thinks", "store": False, "include": ["reasoning.encrypted_content"]}
    client_side_response = await front.create(**options, input="one")
    first_item, *rest = to_builtins(client_side_response.output)
    history: list[Any] = [{"role": "user", "content": "one"}, {**first_item, "content": []}, *rest]
    last = await front.create(**options, input=[*history, {"role": "user", "content": "two"}])
    assert text_of(last) == text_of(second)
    assert upstream_server[0].turns[-1].params.include == ["reasoning.encrypted_content"]


async def test_reasoning_of_another_server_is_sent_as_text(front: Antiphon) -> None:
    reasoning_item = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "So."}],
    }
    response = await front.create(
        model="echo",
        input=[{"role": "user", "content": "a"}, reasoning_item, {"role": "user", "content": "b"}],
    )
    assert text_of(response) == "You said: a | Reasoning | b"


async def test_parts_phases_and_bounds(front: Antiphon) -> None:
    response = await both(front, model="everything", input="hi")
    first, last = _bare(response["output"])
    assert (first["phase"], last["phase"]) == ("commentary", "final_answer")
    assert last["content"][0]["annotations"] == [{"type": "url_citation", "url": "u"}]
    assert last["content"][1] == {"type": "refusal", "refusal": "No."}
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    summaries = await both(front, model="summarises", input="hi", reasoning={"summary": "auto"})
    assert [part["text"] for part in summaries["output"][0]["summary"]] == ["One.", "Two."]


async def test_structured_output_and_a_forced_tool(
    front: Antiphon, upstream_server: tuple[ScriptedBackend, str]
) -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": True}
    response = await both(front, model="json", input="hi", text={"format": form, "verbosity": "low"})
    assert response["output"][0]["content"][0]["text"] == '{"name":"Ada"}'
    sent_text = upstream_server[0].turns[-1].params.text
    assert to_builtins(sent_text) == {"format": form, "verbosity": "low"}
    choice = {"type": "function", "name": "get_weather"}
    await front.create(model="calls", input="hi", tools=[WEATHER], tool_choice=choice)
    forced = upstream_server[0].turns[-1].choice
    assert not isinstance(forced, str)
    assert forced.name == "get_weather"


async def test_a_tool_search_on_the_upstream_server(front: Antiphon) -> None:
    deferred = {**WEATHER, "defer_loading": True}
    tools = [{"type": "tool_search"}, deferred, {"type": "function", "name": "clock", "defer_loading": True}]
    response = await front.create(model="echo", input="hi", tools=tools)
    assert text_of(response) == "You said: hi"
    search = await front.create(model="calls", input="weather", tools=tools[:2])
    kinds = [item["type"] for item in to_builtins(search.output)]
    assert kinds[:3] == ["message", "tool_search_call", "tool_search_output"]


async def test_errors_of_the_upstream_server(front: Antiphon) -> None:
    with pytest.raises(BackendRefused) as caught:
        await front.create(model="too-long", input="hi")
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    with pytest.raises(BackendRefused, match="does not exist") as caught:
        await front.create(model="nobody", input="hi")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    with pytest.raises(AntiphonError, match="took too long"):
        await front.create(model="breaks", input="hi")
    events = [to_wire(event) async for event in front.stream(model="breaks", input="hi")]
    check_order(events)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Half"


async def test_a_wrong_upstream_key_is_reported_as_an_operator_error(
    upstream_server: tuple[ScriptedBackend, str],
) -> None:
    async with in_front(upstream_server[1], "sk-wrong-0123456789") as service:
        with pytest.raises(BackendRefused, match="api_key of this upstream") as caught:
            await service.create(model="echo", input="hi")
    assert (caught.value.status, caught.value.code) == (502, "upstream_auth_error")
    assert "sk-wrong" not in caught.value.message
