"""Approval requests of MCP tools that wait for a person: listed until they are answered or passed over."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import APPROVAL_ANSWERED, InvalidRequest, PreviousResponseNotFound
from antiphon.isolated.pool import IsolatedPool
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tool_items import McpCall
from antiphon.service.checks import Checks
from antiphon.service.hosted_tools.mcp.tool import McpServed
from antiphon.service.responses.create import Creator
from antiphon.service.responses.finish import Retention
from antiphon.store.none import no_stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from tests.service.conftest import MakeCreator
from tests.service.responses.mcp_world import ANSWER, CALLER, approval, call, calls, create
from tests.service.test_background_mcp import TOOL, Shop
from tests.store.conftest import Clock

ASKING: dict[str, Any] = {**TOOL, "require_approval": "always"}
Make = Callable[..., Creator]


@pytest.fixture
async def make(make_creator: MakeCreator) -> Any:
    pool = IsolatedPool()

    def build(*turns: Any, shop: Shop | None = None, **fields: Any) -> Creator:
        backend = ScriptedBackend(*([list(turn)] for turn in turns))
        return make_creator(backend, served_tools=(McpServed(shop or Shop(), Checks(pool)),), **fields)

    yield build
    await pool.aclose()


async def waiting(creator: Creator, tenant: str = "t") -> list[str]:
    return [each.id for each in await creator.store.responses.open_approvals(tenant, 10)]


BOTH = calls(call("buy", item="tea"), call("buy", 1, item="milk"))


async def test_the_requests_of_a_response_are_listed_with_their_exact_arguments(make: Make) -> None:
    creator = make(BOTH)
    response = await create(creator, ASKING)
    found = await creator.store.responses.open_approvals("t", 10)
    assert {each.response_id for each in found} == {response.id}
    assert sorted(each.request.arguments for each in found) == ['{"item":"milk"}', '{"item":"tea"}']
    assert await waiting(creator, "another") == []
    assert len(await creator.store.responses.open_approvals("t", 1)) == 1


async def test_answered_requests_are_no_longer_listed(make: Make) -> None:
    creator = make(BOTH, ANSWER)
    response = await create(creator, ASKING)
    answers = [approval(response, number, approve=False) for number in (-1, -2)]
    await create(creator, ASKING, previous_response_id=response.id, input=answers)
    assert await waiting(creator) == []


async def test_requests_of_a_response_that_is_continued_without_an_answer_are_not_listed(make: Make) -> None:
    creator = make(BOTH, ANSWER)
    response = await create(creator, ASKING)
    await create(creator, ASKING, previous_response_id=response.id, input="Never mind.")
    assert await waiting(creator) == []


async def test_a_deleted_response_takes_its_requests_along(make: Make) -> None:
    creator = make(BOTH)
    response = await create(creator, ASKING)
    await creator.store.responses.delete("t", response.id)
    assert await waiting(creator) == []


async def test_a_response_that_is_not_stored_waits_for_nobody(make: Make) -> None:
    creator = make(BOTH)
    await create(creator, ASKING, store=False)
    assert await waiting(creator) == []


@pytest.mark.requirement("HOSTED/mcp-approval-errors")
async def test_an_approval_is_given_once_though_a_client_sends_it_on_two_branches(make: Make) -> None:
    creator = make(BOTH, ANSWER)
    asked = await create(creator, ASKING)
    again = {"previous_response_id": asked.id, "input": [approval(asked, -2)]}
    done = await create(creator, ASKING, **again)
    assert isinstance(done.output[0], McpCall)
    with pytest.raises(InvalidRequest, match="was already answered"):
        await create(creator, ASKING, **again)


@pytest.mark.requirement("HOSTED/mcp-approval-errors")
async def test_two_equal_approvals_at_once_run_one_call(make: Make) -> None:
    creator = make(BOTH, ANSWER, ANSWER)
    asked = await create(creator, ASKING)
    again = {"previous_response_id": asked.id, "input": [approval(asked, -2)]}
    outcomes = await asyncio.gather(
        create(creator, ASKING, **again), create(creator, ASKING, **again), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["InvalidRequest", "Response"]


UNSTORED = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "shop",
    "name": "buy",
    "arguments": '{"item":"tea"}',
}


@pytest.mark.requirement("HOSTED/mcp-approval-errors")
@pytest.mark.parametrize("stateless", [False, True])
async def test_an_approval_that_is_not_stored_is_given_once(make: Make, stateless: bool) -> None:
    fields: dict[str, Any] = {"stores": no_stores()} if stateless else {}
    shop = Shop()
    creator = make(ANSWER, ANSWER, ANSWER, shop=shop, **fields)
    answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    again: dict[str, Any] = {"store": False, "input": [UNSTORED, answer]}
    outcomes = await asyncio.gather(
        create(creator, ASKING, **again), create(creator, ASKING, **again), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["InvalidRequest", "Response"]
    with pytest.raises(InvalidRequest, match="already answered") as refused:
        await create(creator, ASKING, **again)
    assert refused.value.code == APPROVAL_ANSWERED
    assert shop.bought == ["tea"]


@pytest.fixture
async def aging(make_creator: MakeCreator) -> AsyncGenerator[tuple[Creator, Clock], None]:
    """A creator whose responses expire after a minute, and its clock."""
    clock, pool = Clock(), IsolatedPool()
    stores = sql_stores(await SqliteDatabase.open(None), LocalSignals(), clock)
    creator = make_creator(
        ScriptedBackend([BOTH], [ANSWER]),
        served_tools=(McpServed(Shop(), Checks(pool)),),
        stores=stores,
        clock=clock,
        retention=Retention(lifetime_seconds=60),
    )
    yield creator, clock
    await stores.aclose()
    await pool.aclose()


@pytest.mark.requirement("HOSTED/mcp-approval-errors")
@pytest.mark.parametrize("background", [False, True])
async def test_the_approval_of_an_expired_response_is_refused(
    aging: tuple[Creator, Clock], background: bool
) -> None:
    creator, clock = aging
    asked = await create(creator, ASKING)
    answer = {"previous_response_id": asked.id, "input": [approval(asked, -2)], "background": background}
    clock.now += 60
    assert await waiting(creator) == []
    for swept in (False, True):
        if swept:
            assert await creator.store.upkeep.sweep() > 0
        request = create_from(model="m", tools=[ASKING], **answer)
        with pytest.raises(PreviousResponseNotFound) as refused:
            await creator.draft(request, CALLER).check()
        assert refused.value.message == f"Previous response with id '{asked.id}' not found."
        assert (refused.value.status, refused.value.param) == (400, "previous_response_id")


async def test_an_approval_is_accepted_until_its_response_expires(aging: tuple[Creator, Clock]) -> None:
    creator, clock = aging
    asked = await create(creator, ASKING)
    clock.now += 59
    done = await create(creator, ASKING, previous_response_id=asked.id, input=[approval(asked, -2)])
    assert isinstance(done.output[0], McpCall)
