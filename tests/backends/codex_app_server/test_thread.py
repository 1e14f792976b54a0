"""A listening thread can be cancelled, even in the moment in which a message arrives."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec import Raw

from antiphon.backends.codex_app_server.child import Asked, Child
from antiphon.backends.codex_app_server.thread import Thread
from antiphon.backends.codex_app_server.wire import Message
from tests.backends.codex_app_server.child_support import request_of


class Answering:
    """A child that starts every thread and sends the messages that the test supplies."""

    alive = False

    def __init__(self) -> None:
        self.deliver: Callable[[Message], None] = lambda _: None

    def ask(self, method: str, params: object) -> Asked:
        return Asked(method, asyncio.get_running_loop().create_future())

    async def answer_to(self, asked: Asked, *, patience: float) -> Raw:
        return Raw(b'{"thread":{"id":"t"},"turn":{"id":"t"}}')

    def listen(self, thread_id: str, listener: Any) -> None:
        self.deliver = listener


async def test_a_cancellation_is_not_lost_when_a_message_arrives_just_then() -> None:
    child = Answering()
    thread = await Thread.open(cast("Child", child), request_of(), silence=300.0)

    async def listen() -> None:
        async for _ in thread.batches():
            pass

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    child.deliver(Message(method="thread/status/changed"))
    await asyncio.sleep(0)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30):
            await listening
    assert listening.cancelled()
