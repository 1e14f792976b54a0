"""Reading a body within limits."""

import asyncio
from collections.abc import Sequence

import pytest

from antiphon.errors import BodyTimeout, BodyTooLarge, Overloaded
from antiphon.server.admission import SMALL_BODY_BYTES, BodyBudget
from antiphon.server.exchange import Exchange
from antiphon.server.guard import Head
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.types import Message


def exchange(messages: Sequence[Message], content_length: bytes = b"") -> Exchange:
    queue = iter(messages)

    async def receive() -> Message:
        for message in queue:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError(message)

    head = Head(content_length=content_length)
    return Exchange({"method": "POST", "path": "/"}, receive, send, head=head, request_id="r")


def piece(body: bytes, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_put_together() -> None:
    assert (
        await exchange([piece(b"a"), piece(b"b"), piece(b"c", more=False)]).body(10, BodyBudget(100))
        == b"abc"
    )


@pytest.mark.parametrize(
    "messages",
    [
        [piece(b"x" * 11, more=False)],
        [piece(b"x" * 6), piece(b"x" * 6)],
        [piece(b"x"), piece(b"x" * 11, more=False)],
    ],
)
@pytest.mark.requirement("PROTOCOL/errors-large")
async def test_a_body_beyond_the_limit_is_rejected(messages: list[Message]) -> None:
    with pytest.raises(BodyTooLarge):
        await exchange(messages).body(10, BodyBudget(100))


async def test_a_body_that_is_declared_too_large_is_not_read() -> None:
    with pytest.raises(BodyTooLarge):
        await exchange([], content_length=b"11").body(10, BodyBudget(100))


@pytest.mark.parametrize("messages", [[], [piece(b"a")]])
async def test_a_body_that_does_not_come_times_out(messages: list[Message]) -> None:
    request = exchange(messages)
    with pytest.raises(BodyTimeout), Lifetimes().lease(request.receive) as lease:
        lease.expect_body(0.01)
        await request.body(10, BodyBudget(100))


async def test_a_client_disconnect_in_mid_body() -> None:
    with pytest.raises(ClientGone):
        await exchange([piece(b"a"), {"type": "http.disconnect"}]).body(10, BodyBudget(100))


LARGE = SMALL_BODY_BYTES * 2


def reserved(budget: BodyBudget, size: int) -> bool:
    """Whether there is room for a body of another tenant."""
    try:
        budget.reserve("third", size)
    except Overloaded:
        return False
    budget.release("third", size)
    return True


@pytest.mark.parametrize("declared", [b"", b"%d" % LARGE])
async def test_a_large_body_takes_its_part_of_the_budget_while_it_is_received(declared: bytes) -> None:
    budget = BodyBudget(LARGE * 2)
    room: list[bool] = []
    arriving = [piece(b"x" * LARGE), piece(b"", more=False)]

    async def receive() -> Message:
        room.append(reserved(budget, LARGE + 1))
        return arriving.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError(message)

    head = Head(content_length=declared)
    request = Exchange({"method": "POST", "path": "/"}, receive, send, head=head, request_id="r")
    assert len(await request.body(LARGE, budget)) == LARGE
    assert room == [not declared, False]
    assert reserved(budget, LARGE * 2)


@pytest.mark.parametrize("declared", [b"", b"%d" % LARGE])
async def test_a_body_without_room_is_refused_and_takes_none(declared: bytes) -> None:
    budget = BodyBudget(LARGE * 2)
    budget.reserve("other", LARGE + 1)
    with pytest.raises(Overloaded):
        await exchange([piece(b"x" * LARGE, more=False)], declared).body(LARGE, budget)
    assert len(await exchange([piece(b"x" * 1000, more=False)]).body(LARGE, budget)) == 1000
    assert reserved(budget, LARGE - 1)


async def test_a_broken_off_body_gives_its_part_back() -> None:
    budget = BodyBudget(LARGE)
    with pytest.raises(ClientGone):
        await exchange([piece(b"x" * LARGE), {"type": "http.disconnect"}]).body(LARGE, budget)
    assert reserved(budget, LARGE)


def test_a_tenant_may_use_half_of_the_budget_with_several_bodies() -> None:
    budget = BodyBudget(100)
    budget.reserve("a", 80)  # one body may be larger
    with pytest.raises(Overloaded):
        budget.reserve("a", 10)
    budget.reserve("b", 15)
    budget.release("a", 80)
    budget.reserve("a", 30)
    budget.reserve("a", 20)
    with pytest.raises(Overloaded):
        budget.reserve("a", 1)
