"""The application's life: opened once, closed once, and clear about why it cannot start."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import SettingsError
from antiphon.server.app import App, Served
from antiphon.server.types import Message
from tests.server.conftest import make_creator, options, services_of
from tests.service.conftest import MakeCreator

__all__ = ["make_creator"]


async def live(app: App) -> list[str]:
    """Run a whole life; the messages that the application sent."""
    asked = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": next(asked)}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "lifespan"}, receive, send)
    return [message["type"] for message in sent]


async def test_the_service_is_open_from_start_to_shutdown(make_creator: MakeCreator) -> None:
    story: list[str] = []

    @asynccontextmanager
    async def open_services() -> AsyncGenerator[Served, None]:
        story.append("open")
        yield Served(services_of(make_creator(ScriptedBackend.saying("x"))))
        story.append("closed")

    app = App(open_services, lambda: "req_1", options(), lambda _app: story.append("started"))
    assert await live(app) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert story == ["open", "started", "closed"]


async def test_a_start_that_fails_says_why(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def open_services() -> AsyncGenerator[Served, None]:
        raise SettingsError("no such model")
        yield

    assert await live(App(open_services, lambda: "req_1", options())) == ["lifespan.startup.failed"]
