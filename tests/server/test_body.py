"""Reading a body within limits."""

import asyncio
from collections.abc import Sequence

import pytest

from antiphon.errors import BodyTimeout, BodyTooLarge
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
    assert await exchange([piece(b"a"), piece(b"b"), piece(b"c", more=False)]).body(10) == b"abc"


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
        await exchange(messages).body(10)


async def test_a_body_that_is_declared_too_large_is_not_read() -> None:
    with pytest.raises(BodyTooLarge):
        await exchange([], content_length=b"11").body(10)


@pytest.mark.parametrize("messages", [[], [piece(b"a")]])
async def test_a_body_that_does_not_come_times_out(messages: list[Message]) -> None:
    request = exchange(messages)
    with pytest.raises(BodyTimeout), Lifetimes().lease(request.receive) as lease:
        lease.expect_body(0.01)
        await request.body(10)


async def test_a_client_disconnect_in_mid_body() -> None:
    with pytest.raises(ClientGone):
        await exchange([piece(b"a"), {"type": "http.disconnect"}]).body(10)
