"""Several rounds: repair of invalid answers, and server-side tool search."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from antiphon.backends.features import Feature, Features, Support
from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import BackendBroken, BackendUnreachable, Unsupported
from antiphon.protocol.items import FunctionCall, Message, Reasoning
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.profile import PROXY
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Response, Usage
from antiphon.service.responses.create import Creator
from antiphon.service.responses.rounds import MAX_SILENCE_SECONDS
from antiphon.service.responses.stages.tool_search import MAX_SEARCHES
from antiphon.service.routing.router import Route, Router
from antiphon.turn.chunks import (
    HEARTBEAT,
    CallDelta,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import TurnRequest
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
PROMPTED = Support("emulated", "in the prompt")
ALL: frozenset[Constraint] = frozenset({"tool_choice", "format", "grammar"})


def without(*features: Feature) -> Features:
    everything: dict[Feature, Support] = dict(ScriptedBackend.saying("").features("m"))
    return everything | dict.fromkeys(features, PROMPTED)


NO_ENFORCEMENT = without("structured_output", "constrained_text", "tool_choice_required")


def replies(*texts: str, features: Features = NO_ENFORCEMENT) -> ScriptedBackend:
    """A backend with these answers that enforces nothing."""
    scripts: list[list[Step]] = [[[TextDelta(text), USAGE, Finished("stop")]] for text in texts]
    return ScriptedBackend(*scripts, unenforced=ALL, features=features)


def calling(*chunks: list[Chunk], features: Features = NO_ENFORCEMENT) -> ScriptedBackend:
    scripts: list[list[Step]] = [[[*call, USAGE, Finished("tool_calls")]] for call in chunks]
    return ScriptedBackend(*scripts, unenforced=ALL, features=features)


def patch(text: str) -> list[Chunk]:
    return [CallStarted(0, "c", "patch"), CallDelta(0, msgspec.json.encode({"input": text}).decode())]


async def respond(creator: Creator, **params: Any) -> Response:
    """The JSON answer, after checking that the stream folds to it."""
    return await creator.start(
        create_from(**{"model": "m", "input": "hi", **params}), Caller.of("t")
    ).result()


async def stream(creator: Creator, **params: Any) -> list[dict[str, Any]]:
    run = creator.start(
        create_from(**{"model": "m", "input": "hi", "stream": True, **params}), Caller.of("t")
    )
    events = [to_wire(event) async for batch in run.events() for event in batch]
    check_order(events)
    return events


def messages_of(turn: TurnRequest) -> list[tuple[str, str]]:
    return [
        (item.role, item.content)
        for item in turn.items
        if isinstance(item, Message) and isinstance(item.content, str)
    ]


def answer(response: Response) -> str:
    (item,) = (item for item in response.output if isinstance(item, Message))
    return msgspec.to_builtins(item.content)[0]["text"]


async def test_a_valid_answer_is_requested_once(make_creator: MakeCreator) -> None:
    backend = replies('{"n": 1}')
    response = await respond(make_creator(backend), text=FORMAT)
    assert (answer(response), len(backend.turns)) == ('{"n": 1}', 1)
    assert not response.downgrades


@pytest.mark.requirement("PROTOCOL/create-format-emulated")
async def test_an_invalid_answer_is_repaired(make_creator: MakeCreator) -> None:
    backend = replies("One.", '{"n": 1}')
    response = await respond(make_creator(backend), text=FORMAT)
    assert answer(response) == '{"n": 1}'
    first, (role, repair_prompt) = messages_of(backend.turns[1])[1:]
    assert first == ("assistant", "One.")
    assert (role, "JSON" in repair_prompt) == ("user", True)
    assert isinstance(response.downgrades, list)
    assert "asked again" in response.downgrades[0]
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.total_tokens) == (6, 10)


async def test_a_stream_equals_the_json_answer_without_rejected_text(make_creator: MakeCreator) -> None:
    events = await stream(make_creator(replies("One.", "Two.", '{"n": 1}')), text=FORMAT)
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert deltas == ['{"n": 1}']
    full = await respond(make_creator(replies("One.", "Two.", '{"n": 1}')), text=FORMAT)
    assert events[-1]["response"]["output"][0]["content"] == msgspec.to_builtins(full)["output"][0]["content"]
    assert events[-1]["response"]["downgrades"] == full.downgrades
    assert events[-1]["response"]["usage"] == msgspec.to_builtins(full.usage)


async def test_repairs_are_bounded(make_creator: MakeCreator) -> None:
    backend = replies("One.")
    with pytest.raises(BackendBroken) as caught:
        await respond(make_creator(backend), text=FORMAT)
    assert (caught.value.code, len(backend.turns)) == ("model_did_not_comply", 3)
    assert "text.format" in caught.value.message
    events = await stream(make_creator(replies("One.")), text=FORMAT)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["usage"]["total_tokens"] == 15


@pytest.mark.requirement("PROTOCOL/tools-choice-holds")
async def test_a_missing_required_call_is_repaired(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[TextDelta("No."), Finished("stop")]],
        [[CallStarted(0, "c", "look"), CallDelta(0, "{}"), Finished("tool_calls")]],
        features=NO_ENFORCEMENT,
    )
    response = await respond(make_creator(backend), tools=[TOOL], tool_choice="required")
    assert [type(item) for item in response.output] == [FunctionCall]
    assert "look" in messages_of(backend.turns[1])[-1][1]


@pytest.mark.requirement("PROTOCOL/tools-choice-holds")
async def test_a_model_that_never_calls_fails_the_response(make_creator: MakeCreator) -> None:
    forced = {"type": "function", "name": "look"}
    with pytest.raises(BackendBroken, match="tool_choice"):
        await respond(make_creator(replies("No.")), tools=[TOOL], tool_choice=forced)


async def test_with_enforced_schemas_a_call_is_repaired_as_json(make_creator: MakeCreator) -> None:
    call = '{"name": "look", "arguments": {}}'
    backend = replies("No.", call, features=without("tool_choice_required"))
    response = await respond(make_creator(backend), tools=[TOOL], tool_choice="required")
    (item,) = response.output
    assert isinstance(item, FunctionCall)
    assert (item.name, item.arguments) == ("look", "{}")
    repair_turn = backend.turns[1]
    assert (repair_turn.tools, repair_turn.choice) == ((), "none")
    assert repair_turn.params.text is not None
    assert repair_turn.params.text.format is not None
    assert repair_turn.params.text.format.type == "json_schema"


async def test_a_detour_that_leads_nowhere_is_bounded_too(make_creator: MakeCreator) -> None:
    backend = replies("No.", features=without("tool_choice_required"))
    with pytest.raises(BackendBroken):
        await respond(make_creator(backend), tools=[TOOL], tool_choice="required")
    assert len(backend.turns) == 3


async def test_reasoning_of_all_rounds_is_emitted(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[ReasoningDelta("hm"), TextDelta("No."), Finished("stop")]],
        [[ReasoningDelta("well"), CallStarted(0, "c", "look"), CallDelta(0, "{}"), Finished("tool_calls")]],
        features=NO_ENFORCEMENT,
    )
    response = await respond(make_creator(backend), tools=[TOOL], tool_choice="required")
    assert [type(item) for item in response.output] == [Reasoning, Reasoning, FunctionCall]
    shown = [item for item in backend.turns[1].items if isinstance(item, Reasoning)]
    assert [msgspec.to_builtins(item.content) for item in shown] == [
        [{"type": "reasoning_text", "text": "hm"}]
    ]


@pytest.mark.requirement("PROTOCOL/tools-custom-repaired")
async def test_input_that_violates_its_grammar_is_repaired(make_creator: MakeCreator) -> None:
    backend = calling(patch("A1"), patch("abc"))
    response = await respond(make_creator(backend), tools=[PATCH])
    (item,) = msgspec.to_builtins(response.output)
    assert (item["type"], item["input"]) == ("custom_tool_call", "abc")
    call, output = backend.turns[1].items[-2:]
    assert isinstance(call, FunctionCall)
    assert "not accepted" in msgspec.to_builtins(output)["output"]


async def test_input_that_never_fits_is_passed_on_with_a_note(make_creator: MakeCreator) -> None:
    backend = calling(patch("A1"))
    response = await respond(make_creator(backend), tools=[PATCH])
    (item,) = msgspec.to_builtins(response.output)
    assert (item["input"], len(backend.turns)) == ("A1", 3)
    assert isinstance(response.downgrades, list)
    assert "violates its grammar" in response.downgrades[-1]
    assert [("asked again" in note) for note in response.downgrades[:-1]] == [True, True]
    events = await stream(make_creator(calling(patch("A1"))), tools=[PATCH])
    assert events[-1]["response"]["downgrades"] == response.downgrades


async def test_where_grammars_hold_the_input_is_written_under_it(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[*patch("A1"), Finished("tool_calls")]],
        [[TextDelta("abc"), Finished("stop")]],
        unenforced=ALL,
    )
    response = await respond(make_creator(backend), tools=[PATCH])
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


@pytest.mark.requirement("PROTOCOL/tools-search-server")
async def test_the_server_searches_and_the_model_continues(make_creator: MakeCreator) -> None:
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


async def test_found_tools_remain_available(make_creator: MakeCreator) -> None:
    backend = calling(SEARCH, [TextDelta("It rains.")])
    creator = make_creator(backend)
    first = await respond(creator, tools=DEFERRED)
    await respond(creator, input="And now?", previous_response_id=first.id)
    assert [tool.name for tool in backend.turns[-1].tools] == ["tool_search", "get_weather"]


async def test_searching_is_bounded(make_creator: MakeCreator) -> None:
    backend = calling(SEARCH)
    response = await respond(make_creator(backend), tools=DEFERRED)
    assert len(backend.turns) == MAX_SEARCHES + 1
    assert [tool.name for tool in backend.turns[-1].tools] == ["get_weather"]
    assert response.status == "completed"
    assert isinstance(response.downgrades, list)
    assert "tool_search" in response.downgrades[-1]


async def beats(make_creator: MakeCreator, script: list[Step], *times: float, **params: Any) -> list[int]:
    """The batches after which a stream sends a heartbeat, with a clock that shows these times."""
    ticks = iter(times)
    now = [1000.0]

    def clock() -> float:
        now[0] = 1000.0 + next(ticks, now[0] - 1000.0)
        return now[0]

    seen: list[int] = []

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        for number, batch in enumerate(script):
            seen.append(number)
            yield batch

    backend = ScriptedBackend(steps, unenforced=ALL, features=NO_ENFORCEMENT)
    routes = [Route("m", backend, text_calls="hermes")]
    creator = make_creator(router=Router(routes, chance=lambda: 0.5), clock=clock)
    run = creator.start(create_from(model="m", input="hi", stream=True, **params), Caller.of("t"))
    return [
        seen[-1] async for batch in run.events() for event in batch if to_wire(event)["type"] == "keepalive"
    ]


async def test_a_heartbeat_of_the_backend_passes(make_creator: MakeCreator) -> None:
    script: list[Step] = [[TextDelta("<tool")], HEARTBEAT, [TextDelta(" box")], [Finished("stop")]]
    assert await beats(make_creator, script, tools=[TOOL]) == [1]


@pytest.mark.parametrize("params", [{"tools": [TOOL]}, {"text": FORMAT}])
async def test_heartbeats_are_sent_while_text_is_held(
    make_creator: MakeCreator, params: dict[str, Any]
) -> None:
    held_text: list[Step] = [[TextDelta("<tool_call>")], *([TextDelta(" ")] for _ in range(4))]
    script: list[Step] = [*held_text, [TextDelta('{"n": 1}')], [Finished("stop")]]
    times = (
        0.0,
        0.0,
        MAX_SILENCE_SECONDS - 1,
        MAX_SILENCE_SECONDS,
        MAX_SILENCE_SECONDS + 1,
        2 * MAX_SILENCE_SECONDS,
        2 * MAX_SILENCE_SECONDS,
    )
    assert await beats(make_creator, script, *times, **params) == [2, 4]


@pytest.mark.requirement("PROTOCOL/items-reasoning-damaged")
@pytest.mark.parametrize("envelope", ["gAAAAA-of-somebody-else", "antiphon2.damaged"])
async def test_reasoning_that_cannot_be_opened_is_omitted_with_a_warning(
    make_creator: MakeCreator, caplog: pytest.LogCaptureFixture, envelope: str
) -> None:
    reasoning_item: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": envelope}
    question = {"role": "user", "content": "hi"}
    response = await respond(make_creator(ScriptedBackend.saying("Hello")), input=[reasoning_item, question])
    assert response.status == "completed"
    assert isinstance(response.downgrades, list)
    assert "not sealed here" in response.downgrades[0]
    assert "not sealed here" in caplog.text


LOOK: list[Chunk] = [CallStarted(0, "c0", "look"), CallDelta(0, "{}")]


def patch_at(index: int, text: str) -> list[Chunk]:
    return [
        CallStarted(index, f"p{index}", "patch"),
        CallDelta(index, msgspec.json.encode({"input": text}).decode()),
    ]


async def test_output_before_an_invalid_call_is_not_emitted_twice(make_creator: MakeCreator) -> None:
    """The model sees its earlier output; it must repeat only the invalid call."""
    backend = calling([TextDelta("I patch."), *LOOK, *patch_at(1, "A1")], patch_at(0, "abc"))
    events = await stream(make_creator(backend), tools=[TOOL, PATCH])
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "custom_tool_call"]
    assert output[2]["input"] == "abc"
    shown = [msgspec.to_builtins(item) for item in backend.turns[1].items[1:]]
    assert [item["type"] for item in shown] == [
        "message",
        "function_call",
        "function_call_output",
        "function_call",
        "function_call_output",
    ]
    assert "under way" in shown[2]["output"]
    assert "not accepted" in shown[4]["output"]


async def test_valid_calls_next_to_an_invalid_one_are_emitted(make_creator: MakeCreator) -> None:
    backend = calling(
        [*patch_at(0, "good"), *patch_at(1, "B1"), *[CallStarted(2, "l", "look"), CallDelta(2, "{}")]],
        patch_at(0, "abc"),
    )
    response = await respond(make_creator(backend), tools=[TOOL, PATCH])
    calls_made = [(item["name"], item.get("input")) for item in msgspec.to_builtins(response.output)]
    assert calls_made == [("patch", "good"), ("look", None), ("patch", "abc")]


async def test_an_invalid_repair_is_rejected(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[*patch("A1"), USAGE, Finished("tool_calls")]],
        [[TextDelta("STILL WRONG"), USAGE, Finished("stop")]],
        unenforced=ALL,
    )
    response = await respond(make_creator(backend), tools=[PATCH])
    assert response.usage is not None
    assert response.usage.total_tokens == 15
    assert (msgspec.to_builtins(response.output)[0]["input"], len(backend.turns)) == ("A1", 3)
    assert isinstance(response.downgrades, list)
    assert "violates its grammar" in response.downgrades[-1]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_a_truncated_repair_ends_the_response(make_creator: MakeCreator, reason: Any) -> None:
    backend = ScriptedBackend(
        [[TextDelta("No."), USAGE, Finished("stop")]],
        [[TextDelta('{"name"'), USAGE, Finished(reason)]],
        features=without("tool_choice_required"),
    )
    response = await respond(make_creator(backend), tools=[TOOL], tool_choice="required")
    assert (response.status, len(backend.turns)) == ("incomplete", 2)
    assert response.usage is not None
    assert response.usage.total_tokens == 10


async def test_a_failed_repair_fails_the_response_and_its_usage_counts(
    make_creator: MakeCreator,
) -> None:
    backend = ScriptedBackend(
        [[TextDelta("No."), USAGE, Finished("stop")]],
        [[TextDelta("x"), USAGE], [Failed(BackendBroken("gone"))]],
        features=without("tool_choice_required"),
    )
    events = await stream(make_creator(backend), tools=[TOOL], tool_choice="required")
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["usage"]["total_tokens"] == 10
    assert len(backend.turns) == 2


async def test_a_refusal_during_a_repair_is_emitted(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[TextDelta("No."), Finished("stop")]],
        [[RefusalDelta("Never."), Finished("stop")]],
        features=without("tool_choice_required"),
    )
    response = await respond(make_creator(backend), tools=[TOOL], tool_choice="required")
    (message,) = msgspec.to_builtins(response.output)
    assert message["content"] == [{"type": "refusal", "refusal": "Never."}]


async def test_the_text_of_a_repair_is_not_searched_for_calls(make_creator: MakeCreator) -> None:
    backend = replies("No.", '{"name": "look", "arguments": {}}', features=without("tool_choice_required"))
    routes = [Route("m", backend, text_calls="llama")]
    creator = make_creator(router=Router(routes, chance=lambda: 0.5))
    response = await respond(creator, tools=[TOOL], tool_choice="required")
    assert ([type(item) for item in response.output], len(backend.turns)) == ([FunctionCall], 2)
    assert response.usage is not None
    assert response.usage.total_tokens == 10


async def test_a_repair_does_not_carry_over_to_another_backend(make_creator: MakeCreator) -> None:
    gone = BackendUnreachable("gone")
    first = ScriptedBackend([[*patch("A1"), Finished("tool_calls")]], [gone], unenforced=ALL)
    second = calling(patch("abc"))
    response = await respond(make_creator(first, second), tools=[PATCH])
    assert msgspec.to_builtins(response.output)[0]["input"] == "abc"
    assert (second.turns[0].grammar, len(second.turns[0].tools)) == (None, 1)


async def test_a_model_sees_its_reasoning_before_a_search(make_creator: MakeCreator) -> None:
    backend = calling([ReasoningDelta("hm"), TextDelta("I look."), *SEARCH], [TextDelta("It rains.")])
    await respond(make_creator(backend), tools=DEFERRED)
    shown = [msgspec.to_builtins(item)["type"] for item in backend.turns[1].items[1:]]
    assert shown == ["reasoning", "message", "function_call", "function_call_output"]


async def test_hidden_items_of_all_rounds_are_reported(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(
        [[ReasoningDelta("hm"), TextDelta("No."), Finished("stop")]],
        [[CallStarted(0, "c", "look"), CallDelta(0, "{}"), Finished("tool_calls")]],
        features=NO_ENFORCEMENT,
    )
    request = create_from(model="m", input="hi", tools=[TOOL], tool_choice="required")
    run = make_creator(backend).start(msgspec.structs.replace(request, profile=PROXY), Caller.of("t"))
    response = await run.result()
    assert isinstance(response.downgrades, list)
    assert any("does not show it" in note for note in response.downgrades)


async def test_a_backend_without_any_chunks_has_failed(make_creator: MakeCreator) -> None:
    backends = ScriptedBackend([HEARTBEAT]), ScriptedBackend.saying("Hello")
    assert answer(await respond(make_creator(*backends))) == "Hello"


async def test_a_fallback_that_cannot_serve_the_request_leaves_the_first_error(
    make_creator: MakeCreator,
) -> None:
    """Also when the stream has begun with a heartbeat."""

    class Picky(ScriptedBackend):
        def prepare(self, turn: TurnRequest) -> Any:
            raise Unsupported("not I", param="input")

    events = await stream(
        make_creator(ScriptedBackend([HEARTBEAT, BackendUnreachable("gone")]), Picky([[TextDelta("")]]))
    )
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"] == "gone"
