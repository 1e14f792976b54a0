"""Creating responses: history, routing, errors, and saving before reporting."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import (
    AntiphonError,
    BackendBroken,
    BackendRefused,
    BackendTimeout,
    BackendUnreachable,
    InvalidRequest,
    ModelNotFound,
    NotFound,
    StoreFull,
    StoreUnavailable,
    Unavailable,
    Unsupported,
)
from antiphon.protocol.events import Event
from antiphon.protocol.items import FunctionCall, Message, OpaqueItem, Reasoning
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response
from antiphon.service.responses.create import Creator
from antiphon.service.responses.finish import Retention
from antiphon.store.base import Page, StoredResponse
from antiphon.store.histories import Histories
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import SqlResponses, Trim, sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.turn.chunks import (
    HEARTBEAT,
    CallDelta,
    CallStarted,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
)
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator
from tests.turn.folding import to_wire
from tests.turn.order import check_order

TOOL: dict[str, Any] = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}


async def create_response(creator: Creator, **params: Any) -> Response:
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


def texts(turn: TurnRequest) -> list[str]:
    """The texts that the backend received."""
    found: list[str] = []
    for item in turn.items:
        content = item.content if isinstance(item, Message) else []
        found.append(
            content if isinstance(content, str) else "".join(msgspec.to_builtins(p)["text"] for p in content)
        )
    return found


@pytest.mark.requirement("PROTOCOL/stream-json-same")
async def test_the_json_answer_is_the_last_event_of_the_stream(make_creator: MakeCreator) -> None:
    complete = msgspec.to_builtins(await create_response(make_creator(ScriptedBackend.saying("Hel", "lo"))))
    streamed = (await stream(make_creator(ScriptedBackend.saying("Hel", "lo"))))[-1]["response"]
    assert complete == streamed
    assert complete["output"][0]["content"][0]["text"] == "Hello"


@pytest.mark.requirement("PROTOCOL/state-previous")
async def test_a_continuation_has_the_complete_history(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend.saying("one")
    creator = make_creator(backend)
    first = await create_response(creator, input="a", instructions="not inherited")
    second = await create_response(creator, input="b", previous_response_id=first.id)
    await create_response(creator, input="c", previous_response_id=second.id)
    assert texts(backend.turns[-1]) == ["a", "one", "b", "one", "c"]
    assert backend.turns[-1].params.instructions is None


@pytest.mark.requirement("PROTOCOL/state-branch")
async def test_two_continuations_of_one_response_are_two_branches(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend.saying("x")
    creator = make_creator(backend)
    root = await create_response(creator, input="root")
    left_branch = await create_response(creator, input="left", previous_response_id=root.id)
    await create_response(creator, input="right", previous_response_id=root.id)
    await create_response(creator, input="leaf", previous_response_id=left_branch.id)
    assert texts(backend.turns[-1]) == ["root", "x", "left", "x", "leaf"]


@pytest.mark.requirement("PROTOCOL/errors-previous")
async def test_an_unknown_previous_response_is_not_found(make_creator: MakeCreator) -> None:
    with pytest.raises(NotFound) as caught:
        await create_response(make_creator(ScriptedBackend.saying("x")), previous_response_id="resp_nope")
    assert (caught.value.param, caught.value.code) == ("previous_response_id", "previous_response_not_found")


@pytest.mark.requirement("PROTOCOL/state-store-false-previous")
async def test_a_response_that_is_not_stored_cannot_be_continued(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend.saying("x"))
    lost = await create_response(creator, store=False)
    with pytest.raises(NotFound):
        await create_response(creator, previous_response_id=lost.id)


@pytest.mark.requirement("PROTOCOL/state-item-reference")
async def test_an_item_can_be_referred_to(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend.saying("said before")
    creator = make_creator(backend)
    first = await create_response(creator)
    reference = {"type": "item_reference", "id": first.output[0].id}
    await create_response(creator, input=[reference, {"role": "user", "content": "go on"}])
    assert texts(backend.turns[-1]) == ["said before", "go on"]
    with pytest.raises(NotFound):
        await create_response(creator, input=[{"type": "item_reference", "id": "msg_nope"}])


@pytest.mark.parametrize(("inherit", "expected"), [(True, ["f"]), (False, [])])
@pytest.mark.requirement("PROTOCOL/divergence-inherited-tools")
async def test_tools_are_inherited_unless_switched_off(
    make_creator: MakeCreator, inherit: bool, expected: list[str]
) -> None:
    backend = ScriptedBackend.saying("x")
    creator = make_creator(backend, inherit_tools=inherit)
    first = await create_response(creator, tools=[TOOL])
    second = await create_response(creator, previous_response_id=first.id)
    assert [tool.name for tool in backend.turns[-1].tools] == expected
    assert [tool.name for tool in second.tools] == expected


@pytest.mark.requirement("PROTOCOL/items-reasoning-sealed")
async def test_sealed_reasoning_is_opened_for_the_model(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend([[ReasoningDelta("because"), TextDelta("x"), Finished("stop")]])
    creator = make_creator(backend)
    answer = msgspec.to_builtins(await create_response(creator, store=False))
    replayed = {**answer["output"][0], "content": None}
    await create_response(creator, store=False, input=[replayed, {"role": "user", "content": "go on"}])
    reasoning = backend.turns[-1].items[0]
    assert isinstance(reasoning, Reasoning)
    assert msgspec.to_builtins(reasoning.content) == [{"type": "reasoning_text", "text": "because"}]


@pytest.mark.requirement("PROTOCOL/items-reasoning-foreign")
async def test_a_foreign_envelope_is_ignored(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend.saying("x")
    await create_response(
        make_creator(backend),
        input=[{"type": "reasoning", "encrypted_content": "gAAAA"}, {"role": "user", "content": "x"}],
    )
    assert len(backend.turns) == 1


@pytest.mark.requirement("PROTOCOL/create-encrypted-reasoning")
async def test_reasoning_is_sealed_only_when_the_client_needs_it(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend([[ReasoningDelta("r"), Finished("stop")]]))
    assert "encrypted_content" not in msgspec.to_builtins(await create_response(creator))["output"][0]
    included = await create_response(creator, include=["reasoning.encrypted_content"])
    assert "encrypted_content" in msgspec.to_builtins(included)["output"][0]


async def test_the_next_backend_answers_when_the_first_cannot(make_creator: MakeCreator) -> None:
    for error in (BackendUnreachable(), BackendRefused("busy", status=503)):
        response = await create_response(
            make_creator(ScriptedBackend([error]), ScriptedBackend.saying("second"))
        )
        assert msgspec.to_builtins(response.output)[0]["content"][0]["text"] == "second"


async def test_there_is_no_fallback_for_an_error_of_the_request(make_creator: MakeCreator) -> None:
    second = ScriptedBackend.saying("second")
    with pytest.raises(BackendRefused):
        await create_response(make_creator(ScriptedBackend([BackendRefused("bad", status=400)]), second))
    assert second.turns == []


async def test_there_is_no_fallback_after_the_first_delta(make_creator: MakeCreator) -> None:
    second = ScriptedBackend.saying("second")
    first = ScriptedBackend([[TextDelta("a")], BackendUnreachable()])
    events = await stream(make_creator(first, second))
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert second.turns == []


async def test_fallback_is_possible_after_a_heartbeat(make_creator: MakeCreator) -> None:
    events = await stream(
        make_creator(ScriptedBackend([HEARTBEAT, BackendUnreachable()]), ScriptedBackend.saying("second"))
    )
    assert [event["type"] for event in events[:3]] == [
        "response.created",
        "response.in_progress",
        "keepalive",
    ]
    assert events[-1]["type"] == "response.completed"


async def test_an_error_before_the_first_event_is_raised(make_creator: MakeCreator) -> None:
    with pytest.raises(BackendTimeout):
        await stream(make_creator(ScriptedBackend([BackendTimeout()])))


async def test_a_failure_is_raised_to_callers_that_do_not_stream(make_creator: MakeCreator) -> None:
    with pytest.raises(BackendBroken, match="cut"):
        await create_response(make_creator(ScriptedBackend([[TextDelta("a"), Failed(BackendBroken("cut"))]])))


async def test_a_backend_without_any_chunks_has_failed(make_creator: MakeCreator) -> None:
    with pytest.raises(BackendBroken):
        await create_response(make_creator(ScriptedBackend([])))
    assert (await stream(make_creator(ScriptedBackend([[TextDelta("a")]]))))[-1]["type"] == "response.failed"


class Witness(SqlResponses):
    """Records the status of every saved response, and may reject saving."""

    refusal: AntiphonError | None = None

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database, lambda: 1000.0, Trim(database, None), Histories(database))
        self.saved: list[str] = []
        self.stores = replace(sql_stores(database, LocalSignals(), lambda: 1000.0), responses=self)

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        if self.refusal is not None:
            raise self.refusal
        await super().save(tenant, stored)
        self.saved.append(stored.response.status)


@pytest.fixture
async def witness() -> AsyncGenerator[Witness, None]:
    database = await SqliteDatabase.open(None)
    yield Witness(database)
    await database.aclose()


@pytest.mark.requirement("PROTOCOL/stream-stored-first")
async def test_the_response_is_stored_before_its_terminal_event(
    make_creator: MakeCreator, witness: Witness
) -> None:
    creator = make_creator(ScriptedBackend.saying("a", "b"), stores=witness.stores)
    async for batch in creator.start(
        create_from(model="m", input="hi", stream=True), Caller.of("t")
    ).events():
        completed_sent = any(to_wire(event)["type"] == "response.completed" for event in batch)
        assert witness.saved == (["completed"] if completed_sent else [])


@pytest.mark.parametrize("error", [StoreUnavailable(), StoreFull()])
async def test_a_response_that_cannot_be_stored_is_not_completed(
    make_creator: MakeCreator, witness: Witness, error: AntiphonError
) -> None:
    witness.refusal = error
    creator = make_creator(
        ScriptedBackend.saying("a"), stores=witness.stores, retention=Retention(save_wait_seconds=0.0)
    )
    assert (await stream(creator))[-1]["type"] == "response.failed"
    with pytest.raises(type(error)):
        await create_response(creator)


async def test_an_ended_response_waits_for_a_database_that_is_away(
    make_creator: MakeCreator, witness: Witness
) -> None:
    witness.refusal = StoreUnavailable()
    creator = make_creator(
        ScriptedBackend.saying("a"), stores=witness.stores, retention=Retention(save_wait_seconds=30.0)
    )
    answer = asyncio.create_task(create_response(creator))
    while witness.refusal is not None:
        await asyncio.sleep(0.01)
        if not answer.done():
            witness.refusal = None
    assert (await answer).status == "completed"
    assert witness.saved == ["completed"]


async def test_a_client_disconnect_cancels_the_response(make_creator: MakeCreator, witness: Witness) -> None:
    creator = make_creator(ScriptedBackend.saying("a", "b"), stores=witness.stores)
    run = creator.start(create_from(model="m", input="hi", stream=True), Caller.of("t"))
    async with aclosing(run.events()) as batches:
        await anext(batches)
    await run.abandon()
    retrieved = await witness.response("t", run.id)
    assert retrieved.status == "cancelled"
    assert [item.status for item in retrieved.output] == ["incomplete"]
    await run.abandon()
    assert witness.saved == ["cancelled"]


async def test_closing_the_stream_early_stops_the_backend(make_creator: MakeCreator) -> None:
    stopped = asyncio.Event()

    async def endless(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            while True:
                yield [TextDelta("x")]
        finally:
            stopped.set()

    run = make_creator(ScriptedBackend(endless)).start(
        create_from(model="m", input="hi", stream=True), Caller.of("t")
    )
    async with aclosing(run.events()) as batches:
        await anext(batches)
    assert stopped.is_set()


async def test_a_run_can_be_ended_from_outside(make_creator: MakeCreator) -> None:
    run = make_creator(ScriptedBackend.saying("a", "b")).start(
        create_from(model="m", input="hi", stream=True), Caller.of("t")
    )
    seen: list[Event] = []
    async with aclosing(run.events()) as batches:
        seen += await anext(batches)
    seen += await run.abort(Unavailable())
    check_order([to_wire(event) for event in seen])
    assert run.ended
    assert await run.abort(Unavailable()) == []


async def test_aborting_before_the_start_yields_no_events(make_creator: MakeCreator) -> None:
    run = make_creator(ScriptedBackend.saying("a")).start(create_from(model="m", input="hi"), Caller.of("t"))
    assert await run.abort(AntiphonError()) == []


@pytest.mark.requirement("PROTOCOL/errors-model")
async def test_an_unknown_model_is_not_found(make_creator: MakeCreator) -> None:
    with pytest.raises(ModelNotFound, match="'m'"):
        await create_response(make_creator(ScriptedBackend.saying("x")), model="other")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompt", {"id": "p"}),
        ("moderation", {"model": "x"}),
    ],
)
@pytest.mark.requirement("PROTOCOL/divergence-prompt-moderation")
async def test_unsupported_requests_are_rejected(make_creator: MakeCreator, name: str, value: Any) -> None:
    with pytest.raises(Unsupported) as caught:
        await create_response(make_creator(ScriptedBackend.saying("x")), **{name: value})
    assert caught.value.param == name


@pytest.mark.requirement("PROTOCOL/divergence-hosted-tools", "PROTOCOL/divergence-downgrades")
async def test_an_unserved_hosted_tool_is_rejected_or_reported(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend.saying("x")
    creator = make_creator(backend, ignored_tools=frozenset({"web_search"}))
    with pytest.raises(Unsupported) as caught:
        await create_response(creator, tools=[TOOL, {"type": "file_search", "vector_store_ids": ["vs_1"]}])
    assert caught.value.param == "tools[1].type"
    response = await create_response(creator, tools=[TOOL, {"type": "web_search"}])
    assert response.downgrades == ["tool 'web_search' is not available here and was left out"]
    assert [tool.name for tool in backend.turns[-1].tools] == ["f"]


@pytest.mark.requirement("PROTOCOL/tools-forbidden-call")
async def test_a_call_that_the_choice_forbids_never_reaches_the_client(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend([[CallStarted(0, "c", "f"), CallDelta(0, "{}"), Finished("tool_calls")]])
    with pytest.raises(BackendBroken, match="'f'"):
        await create_response(make_creator(backend), tools=[TOOL], tool_choice="none")
    assert backend.turns[0].tools == ()


@pytest.mark.requirement("PROTOCOL/items-function-call")
async def test_calls_are_output_items(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend([[CallStarted(0, "c", "f"), CallDelta(0, "{}"), Finished("tool_calls")]])
    response = await create_response(make_creator(backend), tools=[TOOL])
    assert isinstance(response.output[0], FunctionCall)


@pytest.mark.requirement("PROTOCOL/tools-unknown-choice")
async def test_a_choice_that_names_no_declared_tool_is_rejected(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend.saying("x"))
    for choice in (
        {"type": "function", "name": "g"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]},
    ):
        with pytest.raises(InvalidRequest, match="not declared"):
            await create_response(creator, tools=[TOOL], tool_choice=choice)
    with pytest.raises(InvalidRequest, match="declares no tool"):
        await create_response(creator, tool_choice="required")
    with pytest.raises(Unsupported):
        await create_response(creator, tools=[TOOL], tool_choice={"type": "file_search"})


@pytest.mark.requirement("PROTOCOL/items-ids-given")
async def test_items_without_an_id_get_one_when_they_are_stored(
    make_creator: MakeCreator, store: Stores
) -> None:
    creator = make_creator(ScriptedBackend.saying("x"))
    sent = [
        {"type": "acme:note", "status": "completed"},
        {"type": "acme:note", "id": "ws_1", "status": "completed"},
        {"role": "user", "content": "hi"},
        {"role": "user", "id": "msg_mine", "content": "hi"},
    ]
    response = await create_response(creator, input=sent)
    page = await store.responses.input_items("t", response.id, Page(order="asc"))
    opaque, known, message, mine = page.items
    assert isinstance(opaque, OpaqueItem)
    assert opaque.body["id"].startswith("item_")
    assert isinstance(known, OpaqueItem)
    assert known.body["id"] == "ws_1"
    assert isinstance(message, Message)
    assert str(message.id).startswith("msg_0")
    assert isinstance(mine, Message)
    assert mine.id == "msg_mine"


@pytest.mark.requirement("PROTOCOL/tools-unknown-call")
async def test_an_output_must_belong_to_a_call_of_its_chain(make_creator: MakeCreator) -> None:
    calling = ScriptedBackend([[CallStarted(0, "call_1", "f"), CallDelta(0, "{}"), Finished("tool_calls")]])
    creator = make_creator(calling)
    first = await create_response(creator, tools=[TOOL])
    output = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    await create_response(creator, input=[output], previous_response_id=first.id)
    for sent, parent in (([output], None), ([output, {**output, "call_id": "call_2"}], first.id)):
        with pytest.raises(InvalidRequest, match="No tool call found") as caught:
            await create_response(creator, input=sent, previous_response_id=parent)
        assert caught.value.param == f"input[{len(sent) - 1}].call_id"


@pytest.mark.requirement("PROTOCOL/state-delete-children")
async def test_a_concurrently_deleted_parent_does_not_fail_the_response(
    make_creator: MakeCreator, store: Stores
) -> None:
    async def deleting(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("two")]
        await store.responses.delete("t", first.id)
        yield [Finished("stop")]

    backend = ScriptedBackend([[TextDelta("one"), Finished("stop")]], deleting, [[Finished("stop")]])
    creator = make_creator(backend)
    first = await create_response(creator, input="a")
    second = await create_response(creator, input="b", previous_response_id=first.id)
    await create_response(creator, input="c", previous_response_id=second.id)
    assert texts(backend.turns[-1]) == ["a", "one", "b", "two", "c"]


async def test_a_server_shutdown_waits_only_briefly_for_the_database(
    make_creator: MakeCreator, witness: Witness
) -> None:
    creator = make_creator(
        ScriptedBackend.saying("a", "b"), stores=witness.stores, retention=Retention(save_wait_seconds=3600.0)
    )
    run = creator.start(create_from(model="m", input="hi", stream=True), Caller.of("t"))
    async with aclosing(run.events()) as batches:
        seen = await anext(batches)
    witness.refusal = StoreUnavailable()
    async with asyncio.timeout(30):
        seen += await run.abort(Unavailable())
    check_order([to_wire(event) for event in seen])


async def test_a_stream_reports_context_length_exceeded(make_creator: MakeCreator) -> None:
    """Codex compacts its history when the stream carries this error, and gives up on any other."""
    too_long = BackendRefused("Too long.", status=400, code="context_length_exceeded")
    events = await stream(make_creator(ScriptedBackend([too_long])))
    assert [event["type"] for event in events][-2:] == ["error", "response.failed"]
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
    with pytest.raises(BackendRefused):
        await create_response(make_creator(ScriptedBackend([too_long])))
