"""Responses in a conversation: acquiring, holding and releasing the lock."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import BackendTimeout, InvalidRequest, NotFound
from antiphon.protocol.events import Event
from antiphon.protocol.items import FunctionCall, FunctionCallOutput
from antiphon.protocol.parse_create import create_from
from antiphon.service.responses import context
from antiphon.service.responses.create import Creator
from antiphon.store.base import Conversation, Page
from antiphon.store.ports import Stores
from antiphon.turn.chunks import HEARTBEAT, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator
from tests.turn.folding import to_wire
from tests.turn.order import check_order


@pytest.fixture(autouse=True)
async def conversation(store: Stores) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [])


async def converse(creator: Creator, **params: Any) -> list[dict[str, Any]]:
    params_sent = {"model": "m", "input": "hi", "stream": True, "conversation": "conv_1", **params}
    run = creator.start(create_from(**params_sent), Caller.of("t"))
    events: list[Event] = [event async for batch in run.events() for event in batch]
    wire = [to_wire(event) for event in events]
    check_order(wire)
    return wire


async def items(store: Stores) -> int:
    return len((await store.conversations.conversation_items("t", "conv_1", Page())).items)


@pytest.mark.requirement("PROTOCOL/conversations-respond")
async def test_a_response_is_appended_and_names_its_conversation(
    make_creator: MakeCreator, store: Stores
) -> None:
    backend = ScriptedBackend.saying("a")
    creator = make_creator(backend)
    events = await converse(creator)
    assert events[-1]["response"]["conversation"] == {"id": "conv_1"}
    await converse(creator, conversation={"id": "conv_1"})
    assert len(backend.turns[-1].items) == 3
    assert await items(store) == 4


@pytest.mark.requirement("PROTOCOL/conversations-unstored")
async def test_a_response_that_is_not_stored_follows_its_conversation_and_adds_nothing(
    make_creator: MakeCreator, store: Stores
) -> None:
    async def reentrant(turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("a")]
        if turn.params.store is None:  # the lock of this response does not keep the other out
            await converse(creator, store=False)
        yield [Finished("stop")]

    backend = ScriptedBackend(reentrant)
    creator = make_creator(backend)
    await converse(creator)
    events = await converse(creator, store=False)
    assert events[-1]["response"]["conversation"] == {"id": "conv_1"}
    assert len(backend.turns[-1].items) == 3
    assert await items(store) == 2
    with pytest.raises(NotFound):
        await converse(creator, store=False, conversation="conv_2")


@pytest.mark.requirement("PROTOCOL/conversations-locked")
async def test_a_second_response_at_the_same_time_is_rejected(make_creator: MakeCreator) -> None:
    async def reentrant(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("a")]
        with pytest.raises(InvalidRequest) as locked:
            await converse(creator)
        assert (locked.value.code, locked.value.param) == ("conversation_locked", "conversation")
        yield [Finished("stop")]

    creator = make_creator(ScriptedBackend(reentrant))
    assert (await converse(creator))[-1]["response"]["status"] == "completed"


async def test_an_immediate_failure_releases_the_lock_and_stores_nothing(
    make_creator: MakeCreator, store: Stores
) -> None:
    with pytest.raises(BackendTimeout):
        await converse(make_creator(ScriptedBackend([BackendTimeout()])))
    assert await items(store) == 0
    assert (await converse(make_creator(ScriptedBackend.saying("a"))))[-1]["response"][
        "status"
    ] == "completed"


@pytest.mark.requirement("PROTOCOL/conversations-failed")
async def test_a_later_failure_is_stored_but_not_appended(make_creator: MakeCreator, store: Stores) -> None:
    events = await converse(make_creator(ScriptedBackend([[TextDelta("a")]])))
    assert events[-1]["type"] == "response.failed"
    assert (await store.responses.response("t", events[-1]["response"]["id"])).status == "failed"
    assert await items(store) == 0


async def test_a_long_response_holds_its_conversation(
    make_creator: MakeCreator, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, leases = 1000.0, list[float]()
    renew = store.conversations.renew

    async def noted(tenant: str, conversation_id: str, response_id: str, lease: float) -> Any:
        leases.append(lease)
        return await renew(tenant, conversation_id, response_id, lease)

    async def long(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        nonlocal now
        for _ in range(4):
            now += context.CONVERSATION_LEASE_SECONDS / 2
            yield HEARTBEAT
        yield [TextDelta("a"), Finished("stop")]

    monkeypatch.setattr(store.conversations, "renew", noted)
    await converse(make_creator(ScriptedBackend(long), clock=lambda: now))
    assert leases == [context.CONVERSATION_LEASE_SECONDS] * 4


async def test_a_response_that_lost_the_lock_has_failed(
    make_creator: MakeCreator, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def robbed(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("a")]
        await store.conversations.enter("t", "conv_1", "resp_other", 60)
        yield [Finished("stop")]

    monkeypatch.setattr(context, "CONVERSATION_LEASE_SECONDS", 0.0)
    monkeypatch.setattr(context.ConversationLock, "due", False)
    events = await converse(make_creator(ScriptedBackend(robbed)))
    assert events[-1]["type"] == "response.failed"
    assert (await store.responses.response("t", events[-1]["response"]["id"])).status == "failed"
    assert await items(store) == 0


async def test_a_rejected_request_leaves_no_lock(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend.saying("a"))
    stray = [{"type": "function_call_output", "call_id": "call_unknown", "output": "1"}]
    with pytest.raises(InvalidRequest, match="No tool call found"):
        await converse(creator, input=stray)
    with pytest.raises(InvalidRequest, match="not available"):
        await converse(creator, tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}])
    assert (await converse(creator))[-1]["response"]["status"] == "completed"


async def test_a_conversation_continues_without_a_removed_call(
    make_creator: MakeCreator, store: Stores
) -> None:
    call = FunctionCall(id="fc_1", call_id="call_1", name="f", arguments="{}")
    await store.conversations.add_items(
        "t", "conv_1", [call, FunctionCallOutput(id="fco_1", call_id="call_1", output="1")]
    )
    await store.conversations.delete_item("t", "conv_1", "fc_1")
    backend = ScriptedBackend.saying("a")
    await converse(make_creator(backend))
    assert len(backend.turns[0].items) == 1
