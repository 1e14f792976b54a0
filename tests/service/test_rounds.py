"""More than one round: answers that must be right, and tools that were searched for."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from antiphon.backends.features import Feature, Features, Support
from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.errors import BackendBroken
from antiphon.protocol.items import FunctionCall, Message, Reasoning
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Response, Usage
from antiphon.service.create import Creator
from antiphon.service.rounds import MAX_SEARCHES, QUIET
from antiphon.service.router import Route, Router
from antiphon.turn.chunks import (
    CallDelta,
    CallStarted,
    Chunk,
    Finished,
    ReasoningDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest
from antiphon.turn.demands import Demand
from tests.service.conftest import MakeCreator
from tests.turn.folding import to_wire
from tests.turn.order import check_order

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
}
PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "patch",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"},
}
FORMAT = {
    "format": {
        "type": "json_schema",
        "name": "answer",
        "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    }
}
USAGE = UsageReported(Usage(3, InputTokensDetails(), 2, OutputTokensDetails(), 5))
ASKED = Support("emulated", "in the prompt")
ALL: frozenset[Demand] = frozenset({"tool_choice", "format", "grammar"})


def without(*features: Feature) -> Features:
    everything: dict[Feature, Support] = dict(ScriptedBackend.saying("").features())
    return everything | dict.fromkeys(features, ASKED)


NOTHING_FORCED = without("structured_output", "grammars", "tool_choice_required")


def saying(*texts: str, features: Features = NOTHING_FORCED) -> ScriptedBackend:
    """A backend that gives these answers, and is held to nothing."""
    scripts: list[list[Step]] = [[[TextDelta(text), USAGE, Finished("stop")]] for text in texts]
    return ScriptedBackend(*scripts, unenforced=ALL, features=features)


def calling(*chunks: list[Chunk], features: Features = NOTHING_FORCED) -> ScriptedBackend:
    scripts: list[list[Step]] = [[[*call, USAGE, Finished("tool_calls")]] for call in chunks]
    return ScriptedBackend(*scripts, unenforced=ALL, features=features)


def patch(text: str) -> list[Chunk]:
    return [CallStarted(0, "c", "patch"), CallDelta(0, msgspec.json.encode({"input": text}).decode())]


async def ask(creator: Creator, **params: Any) -> Response:
    """The answer as JSON, which must be what the stream folds to."""
    return await creator.start(create_from(**{"model": "m", "input": "hi", **params}), "t").result()


async def stream(creator: Creator, **params: Any) -> list[dict[str, Any]]:
    run = creator.start(create_from(**{"model": "m", "input": "hi", "stream": True, **params}), "t")
    events = [to_wire(event) async for batch in run.events() for event in batch]
    check_order(events)
    return events


def told(turn: TurnRequest) -> list[tuple[str, str]]:
    return [
        (item.role, item.content)
        for item in turn.items
        if isinstance(item, Message) and isinstance(item.content, str)
    ]


def answer(response: Response) -> str:
    (item,) = (item for item in response.output if isinstance(item, Message))
    return msgspec.to_builtins(item.content)[0]["text"]


async def test_an_answer_that_is_right_at_once_is_asked_for_once(make_creator: MakeCreator) -> None:
    backend = saying('{"n": 1}')
    response = await ask(make_creator(backend), text=FORMAT)
    assert (answer(response), len(backend.turns)) == ('{"n": 1}', 1)
    assert not response.downgrades


async def test_an_answer_that_is_wrong_is_asked_for_again(make_creator: MakeCreator) -> None:
    backend = saying("One.", '{"n": 1}')
    response = await ask(make_creator(backend), text=FORMAT)
    assert answer(response) == '{"n": 1}'
    first, (role, ask_again) = told(backend.turns[1])[1:]
    assert first == ("assistant", "One.")
    assert (role, "JSON" in ask_again) == ("user", True)
    assert isinstance(response.downgrades, list)
    assert "asked again" in response.downgrades[0]
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.total_tokens) == (6, 10)


async def test_a_stream_tells_the_same_and_nothing_of_what_was_wrong(make_creator: MakeCreator) -> None:
    events = await stream(make_creator(saying("One.", "Two.", '{"n": 1}')), text=FORMAT)
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert deltas == ['{"n": 1}']
    whole = await ask(make_creator(saying("One.", "Two.", '{"n": 1}')), text=FORMAT)
    assert (
        events[-1]["response"]["output"][0]["content"] == msgspec.to_builtins(whole)["output"][0]["content"]
    )
    assert events[-1]["response"]["downgrades"] == whole.downgrades
    assert events[-1]["response"]["usage"] == msgspec.to_builtins(whole.usage)


async def test_asking_is_bounded(make_creator: MakeCreator) -> None:
    backend = saying("One.")
    with pytest.raises(BackendBroken) as caught:
        await ask(make_creator(backend), text=FORMAT)
    assert (caught.value.code, len(backend.turns)) == ("model_did_not_comply", 3)
    assert "text.format" in caught.value.message
    events = await stream(make_creator(saying("One.")), text=FORMAT)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["usage"]["total_tokens"] == 15


async def test_a_model_that_must_call_is_asked_again(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[TextDelta("No."), Finished("stop")]],
        [[CallStarted(0, "c", "look"), CallDelta(0, "{}"), Finished("tool_calls")]],
        features=NOTHING_FORCED,
    )
    response = await ask(make_creator(backend), tools=[TOOL], tool_choice="required")
    assert [type(item) for item in response.output] == [FunctionCall]
    assert "look" in told(backend.turns[1])[-1][1]


async def test_a_model_that_never_calls_fails_the_response(make_creator: MakeCreator) -> None:
    with pytest.raises(BackendBroken, match="tool_choice"):
        await ask(make_creator(saying("No.")), tools=[TOOL], tool_choice={"type": "function", "name": "look"})


async def test_where_schemas_hold_a_call_is_asked_for_as_json(make_creator: MakeCreator) -> None:
    call = '{"name": "look", "arguments": {}}'
    backend = saying("No.", call, features=without("tool_choice_required"))
    response = await ask(make_creator(backend), tools=[TOOL], tool_choice="required")
    (item,) = response.output
    assert isinstance(item, FunctionCall)
    assert (item.name, item.arguments) == ("look", "{}")
    detour = backend.turns[1]
    assert (detour.tools, detour.choice) == ((), "none")
    assert detour.params.text is not None
    assert detour.params.text.format is not None
    assert detour.params.text.format.type == "json_schema"


async def test_a_detour_that_leads_nowhere_is_bounded_too(make_creator: MakeCreator) -> None:
    backend = saying("No.", features=without("tool_choice_required"))
    with pytest.raises(BackendBroken):
        await ask(make_creator(backend), tools=[TOOL], tool_choice="required")
    assert len(backend.turns) == 3


async def test_what_the_model_thought_meanwhile_is_told(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[ReasoningDelta("hm"), TextDelta("No."), Finished("stop")]],
        [[ReasoningDelta("well"), CallStarted(0, "c", "look"), CallDelta(0, "{}"), Finished("tool_calls")]],
        features=NOTHING_FORCED,
    )
    response = await ask(make_creator(backend), tools=[TOOL], tool_choice="required")
    assert [type(item) for item in response.output] == [Reasoning, FunctionCall] or [
        type(item) for item in response.output
    ] == [Reasoning, Reasoning, FunctionCall]


async def test_input_against_its_grammar_is_asked_for_again(make_creator: MakeCreator) -> None:
    backend = calling(patch("A1"), patch("abc"))
    response = await ask(make_creator(backend), tools=[PATCH])
    (item,) = msgspec.to_builtins(response.output)
    assert (item["type"], item["input"]) == ("custom_tool_call", "abc")
    call, output = backend.turns[1].items[-2:]
    assert isinstance(call, FunctionCall)
    assert "not accepted" in msgspec.to_builtins(output)["output"]


async def test_input_that_never_fits_is_passed_on_with_a_note(make_creator: MakeCreator) -> None:
    backend = calling(patch("A1"))
    response = await ask(make_creator(backend), tools=[PATCH])
    (item,) = msgspec.to_builtins(response.output)
    assert (item["input"], len(backend.turns)) == ("A1", 3)
    assert isinstance(response.downgrades, list)
    assert "grammar" in response.downgrades[-1]
    events = await stream(make_creator(calling(patch("A1"))), tools=[PATCH])
    assert events[-1]["response"]["downgrades"] == response.downgrades


async def test_where_grammars_hold_the_input_is_written_under_it(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[*patch("A1"), Finished("tool_calls")]],
        [[TextDelta("abc"), Finished("stop")]],
        unenforced=ALL,
    )
    response = await ask(make_creator(backend), tools=[PATCH])
    assert msgspec.to_builtins(response.output)[0]["input"] == "abc"
    assert backend.turns[1].grammar is not None


DEFERRED: list[dict[str, Any]] = [
    {"type": "tool_search"},
    {
        "type": "function",
        "name": "get_weather",
        "description": "The weather of a city",
        "defer_loading": True,
    },
    {"type": "function", "name": "send_mail", "description": "Send a mail", "defer_loading": True},
]
SEARCH: list[Chunk] = [CallStarted(0, "c", "tool_search"), CallDelta(0, '{"query": "weather"}')]


async def test_the_server_searches_and_the_model_goes_on(make_creator: MakeCreator) -> None:
    weather: list[Chunk] = [CallStarted(0, "d", "get_weather"), CallDelta(0, "{}")]
    backend = calling(SEARCH, weather)
    events = await stream(make_creator(backend), tools=DEFERRED)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["tool_search_call", "tool_search_output", "function_call"]
    assert (output[0]["call_id"], output[0]["execution"]) == (None, "server")
    assert [tool["name"] for tool in output[1]["tools"]] == ["get_weather"]
    assert [tool.name for tool in backend.turns[0].tools] == ["tool_search"]
    assert [tool.name for tool in backend.turns[1].tools] == ["tool_search", "get_weather"]
    assert events[-1]["response"]["usage"]["total_tokens"] == 10


async def test_what_was_found_stays_found(make_creator: MakeCreator) -> None:
    backend = calling(SEARCH, [TextDelta("It rains.")])
    creator = make_creator(backend)
    first = await ask(creator, tools=DEFERRED)
    await ask(creator, input="And now?", previous_response_id=first.id)
    assert [tool.name for tool in backend.turns[-1].tools] == ["tool_search", "get_weather"]


async def test_searching_is_bounded(make_creator: MakeCreator) -> None:
    backend = calling(SEARCH)
    response = await ask(make_creator(backend), tools=DEFERRED)
    assert len(backend.turns) == MAX_SEARCHES + 1
    assert response.status == "completed"


async def beats(make_creator: MakeCreator, script: list[Step], *times: float, **params: Any) -> list[int]:
    """After which batches a stream shows a sign of life, while a clock shows these times."""
    ticks = iter(times)
    now = [1000.0]

    def clock() -> float:
        now[0] = 1000.0 + next(ticks, now[0] - 1000.0)
        return now[0]

    heard: list[int] = []

    async def play(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        for number, batch in enumerate(script):
            heard.append(number)
            yield batch

    backend = ScriptedBackend(play, unenforced=ALL, features=NOTHING_FORCED)
    routes = [Route("m", backend, text_calls="hermes")]
    creator = make_creator(router=Router(routes, chance=lambda: 0.5), clock=clock)
    run = creator.start(create_from(model="m", input="hi", stream=True, **params), "t")
    return [
        heard[-1] async for batch in run.events() for event in batch if to_wire(event)["type"] == "keepalive"
    ]


async def test_a_heartbeat_of_the_backend_passes(make_creator: MakeCreator) -> None:
    script: list[Step] = [[TextDelta("<tool")], [], [TextDelta(" box")], [Finished("stop")]]
    assert await beats(make_creator, script, tools=[TOOL]) == [1]


@pytest.mark.parametrize("params", [{"tools": [TOOL]}, {"text": FORMAT}])
async def test_while_text_is_held_for_long_the_line_stays_alive(
    make_creator: MakeCreator, params: dict[str, Any]
) -> None:
    words: list[Step] = [[TextDelta("<tool_call>")], *([TextDelta(" ")] for _ in range(4))]
    script: list[Step] = [*words, [TextDelta('{"n": 1}')], [Finished("stop")]]
    times = (0.0, 0.0, QUIET - 1, QUIET, QUIET + 1, 2 * QUIET, 2 * QUIET)
    assert await beats(make_creator, script, *times, **params) == [2, 4]


@pytest.mark.parametrize("envelope", ["gAAAAA-of-somebody-else", "antiphon1.damaged"])
async def test_reasoning_that_cannot_be_opened_is_left_out_with_a_warning(
    make_creator: MakeCreator, caplog: pytest.LogCaptureFixture, envelope: str
) -> None:
    thought: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": envelope}
    question = {"role": "user", "content": "hi"}
    response = await ask(make_creator(ScriptedBackend.saying("Hello")), input=[thought, question])
    assert response.status == "completed"
    assert isinstance(response.downgrades, list)
    assert "not sealed here" in response.downgrades[0]
    assert "not sealed here" in caplog.text
