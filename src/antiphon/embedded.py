"""`Antiphon`: the whole service inside your process, without a port.

async with Antiphon() as antiphon:
    response = await antiphon.create(model="local", input="Hello")
    async for event in antiphon.stream(model="local", input="Hello"):
        ...
    client = antiphon.openai_client()   # the official SDK, bound to this object in memory
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from antiphon.errors import SettingsError
from antiphon.protocol.events import Event
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response
from antiphon.service.keys import DEFAULT_TENANT
from antiphon.service.router import Route
from antiphon.service.services import Services
from antiphon.settings import Settings, load_settings
from antiphon.wiring import build_app, open_services

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Antiphon:
    """The service. `routes` names backends of your own, instead of the configured ones."""

    def __init__(self, settings: Settings | None = None, *, routes: Sequence[Route] | None = None) -> None:
        self._settings = settings or load_settings()
        self._routes = routes
        self._stack = AsyncExitStack()
        self._services: Services | None = None

    async def __aenter__(self) -> Self:
        self._services = await self._stack.enter_async_context(open_services(self._settings, self._routes))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._services = None
        await self._stack.aclose()

    async def create(self, **params: Any) -> Response:
        """One response, whole. Takes the parameters of ``POST /v1/responses``; a failure is raised."""
        return await self._open().creator.start(create_from(**params), DEFAULT_TENANT).result()

    async def stream(self, **params: Any) -> AsyncGenerator[Event, None]:
        """The events of one response as they come."""
        run = self._open().creator.start(create_from(**{**params, "stream": True}), DEFAULT_TENANT)
        async with aclosing(run.events()) as batches:
            async for events in batches:
                for event in events:
                    yield event

    async def models(self) -> list[str]:
        """The names of the models that can be asked."""
        return [model.id for model in await self._open().creator.router.models()]

    def openai_client(self) -> "AsyncOpenAI":
        """An official `openai.AsyncOpenAI`, bound to this object in memory; needs ``antiphon[openai]``."""
        try:
            from openai import AsyncOpenAI  # noqa: PLC0415 -- optional: the [openai] extra

            from antiphon.server.memory import memory_client  # noqa: PLC0415 -- needs the SDK's HTTP library
        except ImportError:
            raise SettingsError("openai_client() needs the SDK: pip install 'antiphon[openai]'.") from None
        app = build_app(self._settings, routes=self._routes)
        app.mount(self._open())
        return AsyncOpenAI(
            base_url="http://localhost/v1",
            api_key=next(iter(self._settings.server.api_keys), "in-memory"),
            http_client=memory_client(app),
            max_retries=0,
        )

    def _open(self) -> Services:
        if self._services is None:
            raise SettingsError("Antiphon is not open: use it as `async with Antiphon() as antiphon:`.")
        return self._services
