"""Tools of every kind through the service: tool, call, output, and the next turn."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import InvalidRequest
from antiphon.jobs.worker import Worker
from antiphon.protocol.items import FunctionCall, FunctionCallOutput
from antiphon.protocol.parse_create import create_from, parse_create
from antiphon.protocol.response import Response
from antiphon.protocol.sse import SseReader
from antiphon.service.background import Background
from antiphon.service.responses.create import Creator
from antiphon.service.responses.session import ConnectionMemory, Session
from antiphon.tenant_budget import TenantBudget
from antiphon.turn.chunks import HEARTBEAT, CallDelta, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator
from tests.turn.folding import to_wire
from tests.turn.order import check_order

JsonObject = dict[str, Any]
SCREEN = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}
FOUND = {"type": "function", "name": "get", "description": None, "parameters": None, "strict": None}

ROUNDS: dict[str, tuple[JsonObject, str, str, JsonObject]] = {
    "function_call": ({"type": "function", "name": "f"}, "f", "{}", {"output": "1"}),
    "custom_tool_call": ({"type": "custom", "name": "c"}, "c", '{"input":"x"}', {"output": "1"}),
    "shell_call": ({"type": "shell"}, "shell", '{"commands":["ls"]}', {"output": [{"stdout": "1"}]}),
    "local_shell_call": ({"type": "local_shell"}, "local_shell", '{"command":["ls"]}', {"output": "1"}),
    "apply_patch_call": (
        {"type": "apply_patch"},
        "apply_patch",
        '{"type":"delete_file","path":"a"}',
        {"status": "failed", "output": "1"},
    ),
    "computer_call": ({"type": "computer"}, "computer", '{"actions":[{"type":"wait"}]}', {"output": SCREEN}),
    "tool_search_call": (
        {"type": "tool_search", "execution": "client"},
        "tool_search",
        '{"query":"x"}',
        {"tools": [{"type": "namespace", "name": "crm", "description": "d", "tools": [FOUND]}]},
    ),
}
"""By the type of the call: the tool, its flat name, the model's arguments, and the client's output."""
KINDS = sorted(ROUNDS)


def script(kind: str) -> ScriptedBackend:
    _, name, arguments, _ = ROUNDS[kind]
    call: list[Chunk] = [CallStarted(0, "call_1", name), CallDelta(0, arguments), Finished("tool_calls")]
    return ScriptedBackend([call], [[TextDelta("done"), Finished("stop")]])


def output_of(kind: str, call_id: str = "call_1") -> JsonObject:
    wire = "tool_search_output" if kind == "tool_search_call" else f"{kind}_output"
    return {"type": wire, "call_id": call_id, **ROUNDS[kind][3]}


async def create_response(creator: Creator, session: Session | None = None, **params: Any) -> Response:
    request = create_from(**{"model": "m", "input": "hi", **params})
    return await creator.start(request, Caller.of("t"), session).result()


def wire(response: Response) -> JsonObject:
    return msgspec.json.decode(msgspec.json.encode(response))


def pair(turn: TurnRequest) -> tuple[FunctionCall, FunctionCallOutput]:
    """The call and its output, as the model sees them."""
    (call,) = (item for item in turn.items if isinstance(item, FunctionCall))
    (output,) = (item for item in turn.items if isinstance(item, FunctionCallOutput))
    assert call.call_id == output.call_id == "call_1"
    return call, output


@pytest.mark.requirement("PROTOCOL/tools-client-run")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_round_of_tools_on_a_stored_response(kind: str, make_creator: MakeCreator) -> None:
    backend = script(kind)
    creator = make_creator(backend)
    first = await create_response(creator, tools=[ROUNDS[kind][0]])
    (item,) = wire(first)["output"]
    assert (item["type"], item["call_id"], item["status"]) == (kind, "call_1", "completed")
    second = await create_response(creator, previous_response_id=first.id, input=[output_of(kind)])
    assert wire(second)["output"][0]["content"][0]["text"] == "done"
    call, output = pair(backend.turns[1])
    assert call.name == ROUNDS[kind][1]
    assert output.output


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_round_with_the_complete_history_sent_again(
    kind: str, make_creator: MakeCreator
) -> None:
    backend = script(kind)
    creator = make_creator(backend)
    tools = [ROUNDS[kind][0]]
    first = await create_response(creator, tools=tools, store=False)
    history = [{"role": "user", "content": "hi"}, *wire(first)["output"], output_of(kind)]
    await create_response(creator, tools=tools, store=False, input=history)
    assert pair(backend.turns[1])[0].name == ROUNDS[kind][1]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_round_of_tools_in_the_memory_of_a_connection(kind: str, make_creator: MakeCreator) -> None:
    backend = script(kind)
    creator, session = make_creator(backend), Session(ConnectionMemory(TenantBudget(2**20), "default"))
    first = await create_response(creator, session, tools=[ROUNDS[kind][0]], store=False)
    await create_response(
        creator, session, store=False, previous_response_id=first.id, input=[output_of(kind)]
    )
    assert pair(backend.turns[1])[0].name == ROUNDS[kind][1]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_and_a_json_answer_are_equal(kind: str, make_creator: MakeCreator) -> None:
    request = create_from(model="m", input="hi", stream=True, tools=[ROUNDS[kind][0]])
    run = make_creator(script(kind)).start(request, Caller.of("t"))
    events = [to_wire(event) async for batch in run.events() for event in batch]
    check_order(events)
    complete = wire(await create_response(make_creator(script(kind)), tools=[ROUNDS[kind][0]]))
    assert events[-1]["response"]["output"] == complete["output"]
    assert events[-1]["response"]["tools"] == complete["tools"]


@pytest.mark.requirement("PROTOCOL/tools-search-client")
async def test_tools_that_were_found_can_be_called_in_the_next_turn(make_creator: MakeCreator) -> None:
    kind = "tool_search_call"
    call: list[Step] = [[CallStarted(0, "call_2", "crm__get"), CallDelta(0, "{}"), Finished("tool_calls")]]
    search = [CallStarted(0, "call_1", "tool_search"), CallDelta(0, "{}"), Finished("tool_calls")]
    creator = make_creator(backend := ScriptedBackend([search], call))
    first = await create_response(creator, tools=[ROUNDS[kind][0]])
    second = await create_response(creator, previous_response_id=first.id, input=[output_of(kind)])
    (item,) = wire(second)["output"]
    assert (item["type"], item["name"], item["namespace"]) == ("function_call", "get", "crm")
    assert [tool.name for tool in backend.turns[1].tools] == ["tool_search", "crm__get"]


@pytest.mark.requirement("PROTOCOL/tools-additional")
async def test_tools_of_the_conversation_are_available_in_later_turns(make_creator: MakeCreator) -> None:
    declared = {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "custom", "name": "exec"}],
    }
    backend = ScriptedBackend.saying("x")
    creator = make_creator(backend)
    first = await create_response(creator, input=[declared, {"role": "user", "content": "hi"}])
    await create_response(creator, previous_response_id=first.id)
    assert [[tool.name for tool in turn.tools] for turn in backend.turns] == [["exec"], ["exec"]]


@pytest.mark.requirement("PROTOCOL/tools-output-kind")
@pytest.mark.parametrize("called", KINDS)
@pytest.mark.parametrize("answered", KINDS)
async def test_an_output_must_be_of_the_kind_of_its_call(
    called: str, answered: str, make_creator: MakeCreator
) -> None:
    creator = make_creator(script(called))
    first = await create_response(creator, tools=[ROUNDS[called][0]])
    sent = [{"role": "user", "content": "x"}, output_of(answered)]
    if called == answered:
        await create_response(creator, previous_response_id=first.id, input=sent)
        return
    with pytest.raises(InvalidRequest) as caught:
        await create_response(creator, previous_response_id=first.id, input=sent)
    assert (caught.value.param, caught.value.code) == ("input[1].call_id", "invalid_value")
    for item_type in (called, output_of(called)["type"], output_of(answered)["type"]):
        assert f"'{item_type}'" in caught.value.message


@pytest.mark.parametrize("kind", KINDS)
async def test_an_output_without_a_call_is_rejected(kind: str, make_creator: MakeCreator) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await create_response(make_creator(script(kind)), input=[output_of(kind, "call_9")])
    assert (caught.value.param, caught.value.code) == ("input[0].call_id", "invalid_value")
    assert "call_9" in caught.value.message


@pytest.mark.requirement("PROTOCOL/tools-search-server")
async def test_the_result_of_a_server_search_answers_no_call(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend.saying("x")
    found = {"type": "tool_search_output", "call_id": None, "tools": [{"type": "function", "name": "f"}]}
    await create_response(make_creator(backend), input=[found, {"role": "user", "content": "hi"}])
    assert [tool.name for tool in backend.turns[0].tools] == ["f"]
    assert len(backend.turns[0].items) == 1


async def test_a_call_that_could_not_be_read_is_not_shown_again(make_creator: MakeCreator) -> None:
    broken = [CallStarted(0, "call_1", "shell"), CallDelta(0, "{"), Finished("tool_calls")]
    creator = make_creator(backend := ScriptedBackend([broken], [[TextDelta("x"), Finished("stop")]]))
    first = await create_response(creator, tools=[{"type": "shell"}])
    assert wire(first)["output"][0]["status"] == "incomplete"
    await create_response(creator, previous_response_id=first.id, input="Try again.")
    assert not any(isinstance(item, FunctionCall) for item in backend.turns[1].items)


Make = Callable[[ScriptedBackend], Background]


@pytest.fixture
async def make(make_creator: MakeCreator) -> AsyncGenerator[Make, None]:
    """Builds background services that share one store."""
    services: list[Background] = []

    def one(backend: ScriptedBackend) -> Background:
        creator = make_creator(backend)
        jobs = Worker(creator.store.jobs, creator.store.signals, owner=f"process {len(services)}")
        services.append(Background(creator, jobs))
        return services[-1]

    yield one
    for background in services:
        await background.jobs.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_incomplete_call_is_closed_by_the_next_attempt(kind: str, make: Make) -> None:
    tool, name, arguments, _ = ROUNDS[kind]
    begun = asyncio.Event()

    async def stalls(_turn: TurnRequest, /) -> AsyncGenerator[Step, None]:
        yield [CallStarted(0, "call_1", name), CallDelta(0, arguments[: len(arguments) // 2])]
        yield HEARTBEAT
        begun.set()
        await asyncio.Event().wait()

    first = make(ScriptedBackend(stalls))
    body = msgspec.json.encode({"model": "m", "input": "hi", "background": True, "tools": [tool]})
    response = await first.submit(parse_create(body), body, Caller.of("t"))
    async with asyncio.timeout(10):
        await begun.wait()
        await first.jobs.aclose()
        second = make(script(kind))
        second.jobs.adopt()
        reader, events = SseReader(), list[JsonObject]()
        async with aclosing(second.follow(Caller.of("t"), response.id, -1)) as pieces:
            async for piece in pieces:
                events += [msgspec.json.decode(data) for data in reader.feed(piece)]
    check_order(events)
    last = events[-1]["response"]
    assert (last["status"], last["output"][-1]["type"]) == ("completed", kind)
    assert [item["status"] for item in last["output"]] in (["completed"], ["incomplete", "completed"])
