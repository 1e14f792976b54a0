"""Long histories: how long they may be, and how much of them tenants hold together."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend, Step
from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, Overloaded
from antiphon.protocol.items import Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response
from antiphon.service.background import Background
from antiphon.service.responses import file_room
from antiphon.service.responses.create import Creator
from antiphon.service.responses.file_room import SentContent
from antiphon.service.responses.history_room import HistoryLimits
from antiphon.service.responses.session import ConnectionMemory
from antiphon.store.base import Conversation
from antiphon.store.ports import Stores
from antiphon.tenant_budget import TenantBudget
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator, services_of
from tests.service.responses.test_full_rooms import files

LONG_TEXT = "x" * 100_000
BATCH = [TextDelta("a"), Finished("stop")]
ANSWER: list[Step] = [BATCH]


async def create(creator: Creator, tenant: str = "t", **params: Any) -> Response:
    return await creator.start(
        create_from(**{"model": "m", "input": "x", **params}), Caller.of(tenant)
    ).result()


async def long_response(creator: Creator, tenant: str = "t") -> str:
    """The id of a response with a history of 100 kB."""
    return (await create(creator, tenant, input=LONG_TEXT)).id


def held(creator: Creator) -> int:
    return creator.parts.files.sent.total


class Gated:
    """A backend whose answers wait."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.backend = ScriptedBackend(ANSWER, self._play)

    async def _play(self, turn: TurnRequest) -> AsyncGenerator[Step, None]:
        if turn.history:
            self.begun.set()
            await self.go.wait()
        yield BATCH


async def test_a_history_with_too_many_items_is_refused(make_creator: MakeCreator, store: Stores) -> None:
    creator = make_creator(ScriptedBackend(ANSWER, ANSWER), history=HistoryLimits(items=3))
    first = await create(creator)
    second = await create(creator, previous_response_id=first.id)
    with pytest.raises(InvalidRequest, match=r"more than 3 items\..*compact") as refused:
        await create(creator, previous_response_id=second.id)
    assert (refused.value.code, refused.value.param) == ("history_too_long", "previous_response_id")
    tokens = services_of(creator).tokens
    with pytest.raises(InvalidRequest, match="more than 3 items"):
        await tokens.count(create_from(model="m", previous_response_id=second.id), Caller.of("t"))


@pytest.mark.parametrize("params", [{}, {"store": False}])
async def test_a_conversation_that_is_too_long_is_refused_and_unlocked(
    params: dict[str, Any], make_creator: MakeCreator, store: Stores
) -> None:
    items = [Message(id=f"msg_{index}", role="user", content="x") for index in range(4)]
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), items)
    creator = make_creator(ScriptedBackend(ANSWER), history=HistoryLimits(items=3))
    with pytest.raises(InvalidRequest, match="Begin a new conversation") as refused:
        await create(creator, conversation="conv_1", **params)
    assert (refused.value.code, refused.value.param) == ("history_too_long", "conversation")
    await store.conversations.delete_item("t", "conv_1", "msg_1")


async def test_a_history_with_too_many_bytes_is_refused(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend(ANSWER), history=HistoryLimits(bytes=90_000))
    last = await long_response(creator)
    with pytest.raises(InvalidRequest, match="more than 90000 bytes") as refused:
        await create(creator, previous_response_id=last)
    assert refused.value.code == "history_too_long"
    assert held(creator) == 0


async def test_a_history_of_a_connection_has_the_same_limit(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend(ANSWER), history=HistoryLimits(items=1))
    session = ConnectionMemory(TenantBudget(10**9), "t").session()
    first = creator.start(create_from(model="m", input="x", store=False), Caller.of("t"), session)
    parent = (await first.result()).id
    request = create_from(model="m", input="x", store=False, previous_response_id=parent)
    with pytest.raises(InvalidRequest, match="more than 1 items"):
        await creator.start(request, Caller.of("t"), session).result()


async def test_a_history_that_has_become_too_long_can_be_compacted(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend(*[ANSWER] * 4), history=HistoryLimits(items=3))
    first = await create(creator)
    second = await create(creator, previous_response_id=first.id)
    compactor = services_of(creator).compactor
    body = f'{{"model": "m", "previous_response_id": "{second.id}"}}'.encode()
    assert (await compactor.compact(body, Caller.of("t"))).output
    creator = make_creator(ScriptedBackend(ANSWER), history=HistoryLimits(items=1))
    with pytest.raises(InvalidRequest, match="more than 2 items"):
        await services_of(creator).compactor.compact(body, Caller.of("t"))


async def test_long_histories_are_held_until_the_answer(make_creator: MakeCreator) -> None:
    gated = Gated()
    creator = make_creator(gated.backend, files=files(SentContent(300_000)))
    last, foreign = await long_response(creator), await long_response(creator, "u")
    running = asyncio.create_task(create(creator, previous_response_id=last))
    await gated.begun.wait()
    with pytest.raises(Overloaded):
        await create(creator, previous_response_id=last)
    with pytest.raises(Overloaded):
        await services_of(creator).tokens.count(
            create_from(model="m", previous_response_id=last), Caller.of("t")
        )
    gated.begun.clear()
    beside = asyncio.create_task(create(creator, "u", previous_response_id=foreign))
    await gated.begun.wait()
    gated.go.set()
    await asyncio.gather(running, beside)
    await create(creator, previous_response_id=last)


async def test_short_histories_do_not_count(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend(ANSWER, ANSWER), files=files(SentContent(0)))
    first = await create(creator)
    assert (await create(creator, previous_response_id=first.id)).status == "completed"


async def test_whatever_happens_the_history_is_let_go(make_creator: MakeCreator, store: Stores) -> None:
    creator = make_creator(ScriptedBackend(ANSWER, ANSWER, [], ANSWER, ANSWER, ANSWER))
    last, caller = await long_response(creator), Caller.of("t")
    stray = [{"type": "function_call_output", "call_id": "call_unknown", "output": "1"}]
    await create(creator, previous_response_id=last)
    assert held(creator) == 0, "completed"
    with pytest.raises(Exception, match="answer"):
        await create(creator, previous_response_id=last)
    assert held(creator) == 0, "failed"
    with pytest.raises(InvalidRequest):
        await create(creator, previous_response_id=last, input=stray)
    assert held(creator) == 0, "rejected"
    run = creator.start(create_from(model="m", input="x", stream=True, previous_response_id=last), caller)
    events = run.events()
    await anext(events)
    assert held(creator) > 100_000, "running"
    await events.aclose()
    assert held(creator) == 0, "closed"
    await creator.store_only(create_from(model="m", input="x", previous_response_id=last), caller)
    assert held(creator) == 0, "stored only"
    services = services_of(creator)
    await services.tokens.count(create_from(model="m", previous_response_id=last), caller)
    assert held(creator) == 0, "counted"


async def test_a_background_response_lets_its_history_go(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend(ANSWER, ANSWER))
    background = Background(creator, services_of(creator).background.jobs)
    last = await long_response(creator)
    request = create_from(model="m", input="x", background=True, previous_response_id=last)
    response = await background.submit(request, b"{}", Caller.of("t"))
    assert held(creator) == 0
    assert response.status == "queued"


async def test_a_long_history_counts_as_input(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend(ANSWER, ANSWER, ANSWER)
    creator = make_creator(backend)
    last = await long_response(creator)
    session = ConnectionMemory(TenantBudget(10**9), "t").session()
    request = create_from(model="m", input="x", store=False, previous_response_id=last)
    remembered = await creator.start(request, Caller.of("t"), session).result()
    request = create_from(model="m", input="x", store=False, previous_response_id=remembered.id)
    await creator.start(request, Caller.of("t"), session).result()
    assert [turn.input_bytes > 100_000 for turn in backend.turns] == [False, True, True]


def test_content_is_refused_where_memory_is_scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_room, "resident_bytes", lambda: 700)
    sent = SentContent(max_memory_bytes=1000)
    first = sent.hold("t")
    first.add(50)
    with pytest.raises(Overloaded, match="memory"):
        first.add(1)
