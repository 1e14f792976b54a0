"""The application's lifespan: opened once, closed once, and start failures with their reason."""

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
    """Run a complete lifespan; the messages that the application sent."""
    messages = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": next(messages)}

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


async def test_a_failed_start_gives_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def open_services() -> AsyncGenerator[Served, None]:
        raise SettingsError("no such model")
        yield

    assert await live(App(open_services, lambda: "req_1", options())) == ["lifespan.startup.failed"]
