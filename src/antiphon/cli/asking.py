"""Whom the commands ask: the service inside this process, or a server (`antiphon.cli.remote`)."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Protocol

import msgspec

from antiphon.cli.heard import Ended, Heard, hear
from antiphon.cli.options import LOCAL_ALIAS
from antiphon.cli.remote import open_remote
from antiphon.cli.weights import ensure_weights, local_name, require_engine
from antiphon.embedded import Antiphon
from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject
from antiphon.service.routing.names import is_pattern
from antiphon.settings import Settings


class Asker(Protocol):
    """Gives answers. What goes wrong is raised, or told by a last `Ended` that has a `failure`."""

    def stream(self, params: JsonObject) -> AsyncGenerator[Heard, None]:
        """The answer as it comes; the last thing heard is `Ended`."""
        ...

    async def create(self, params: JsonObject) -> Ended:
        """The answer, whole."""
        ...

    async def models(self) -> list[str]:
        """The names that can be asked."""
        ...

    async def default_model(self) -> str:
        """The one to ask when none was named."""
        ...


class InProcess:
    """Asks the service that runs inside this process."""

    def __init__(self, antiphon: Antiphon) -> None:
        self._antiphon = antiphon

    async def stream(self, params: JsonObject) -> AsyncGenerator[Heard, None]:
        """The answer as it comes."""
        async with aclosing(self._antiphon.stream(**params)) as events:
            async for event in events:
                heard = hear(msgspec.to_builtins(event))
                if heard is not None:
                    yield heard

    async def create(self, params: JsonObject) -> Ended:
        """The answer, whole."""
        return Ended.of(msgspec.to_builtins(await self._antiphon.create(**params)))

    async def models(self) -> list[str]:
        """What the routes serve."""
        return await self._antiphon.models()

    async def default_model(self) -> str:
        """The first that an upstream offers."""
        models = await self.models()
        if not models:
            raise SettingsError("The upstream does not tell its models. Name one with --model.")
        return models[0]


@asynccontextmanager
async def open_in_process(settings: Settings) -> AsyncGenerator[Asker, None]:
    """The service of these settings, for as long as the context lasts."""
    async with Antiphon(settings) as antiphon:
        yield InProcess(antiphon)


def open_asker(base_url: str | None, settings: Settings | None) -> AbstractAsyncContextManager[Asker]:
    """A server, or the service of the settings."""
    return open_remote(base_url) if base_url else open_in_process(settings or Settings())


def prepare_model(settings: Settings, model: str | None) -> str | None:
    """See that the model to ask is there; returns its name, None if only the upstream knows one."""
    name = model or _configured_model(settings)
    if not settings.serves_local_model:
        return name
    local = local_name(settings.local.model)
    if name == settings.local.model:
        name = local  # a file is called by its name without folder and ending
    if name in (LOCAL_ALIAS, local):
        require_engine()
        ensure_weights(settings.local.model)
    return name


def _configured_model(settings: Settings) -> str | None:
    """The first name in the settings, else the embedded model; None if every name is passed through."""
    named = (name for name in settings.model_names if not is_pattern(name))
    return next(named, LOCAL_ALIAS if settings.serves_local_model else None)
