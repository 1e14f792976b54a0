"""A thread that listens can be told to stop, also in the very moment in which it hears something."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec import Raw

from antiphon.backends.codex_app_server.child import Asked, Child
from antiphon.backends.codex_app_server.thread import Thread
from antiphon.backends.codex_app_server.wire import Message
from tests.backends.codex_app_server.playing import request_of


class Answering:
    """A child that begins every thread, and says what the test wants it to say."""

    alive = False

    def __init__(self) -> None:
        self.say: Callable[[Message], None] = lambda _: None

    def ask(self, method: str, params: object) -> Asked:
        return Asked(method, asyncio.get_running_loop().create_future())

    async def answer_to(self, asked: Asked, *, patience: float) -> Raw:
        return Raw(b'{"thread":{"id":"t"},"turn":{"id":"t"}}')

    def listen(self, thread_id: str, listener: Any) -> None:
        self.say = listener


async def test_a_cancellation_is_not_lost_when_something_is_heard_just_then() -> None:
    child = Answering()
    thread = await Thread.open(cast("Child", child), request_of(), silence=300.0)

    async def listen() -> None:
        async for _ in thread.batches():
            pass

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    child.say(Message(method="thread/status/changed"))
    await asyncio.sleep(0)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30):
            await listening
    assert listening.cancelled()
