"""`Antiphon`: the whole service inside your process, without a port.

async with Antiphon() as antiphon:
    response = await antiphon.create(model="local", input="Hello")
    async for event in antiphon.stream(model="local", input="Hello"):
        ...
    queued = await antiphon.create(model="local", input="Hello", background=True)
    async for event in antiphon.follow(queued.id):
        ...
    client = antiphon.openai_client()   # the official SDK, bound to this object in memory
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from antiphon.errors import SettingsError
from antiphon.protocol.compact import CompactedResponse
from antiphon.protocol.events import Event
from antiphon.protocol.parse_create import create_from, parse_create
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response
from antiphon.service.event_log import read_events
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
        """One response, whole; with `background=True`, queued. A failure is raised.

        Takes the parameters of ``POST /v1/responses``.
        """
        services, body = self._open(), msgspec.json.encode(params)
        request = parse_create(body)
        if request.params.background:
            return await services.background.submit(request, body, DEFAULT_TENANT)
        return await services.creator.start(request, DEFAULT_TENANT).result()

    async def stream(self, **params: Any) -> AsyncGenerator[Event, None]:
        """The events of one response as they come. Who leaves early cancels it, unless it is made in the
        background."""
        if params.get("background"):
            events = self.follow((await self.create(**params)).id)
        else:
            events = self._events(create_from(**{**params, "stream": True}))
        async with aclosing(events):
            async for event in events:
                yield event

    async def retrieve(self, response_id: str) -> Response:
        """A stored response; one that is still being made as far as it has come."""
        return await self._open().stored.retrieve(DEFAULT_TENANT, response_id)

    async def follow(self, response_id: str, after: int = -1) -> AsyncGenerator[Event, None]:
        """The events of a background response with numbers above `after`: what was said, then as they come.

        Who leaves early can come back; the response is made anyway.
        """
        pieces = self._open().background.follow(DEFAULT_TENANT, response_id, after)
        async with aclosing(pieces):
            async for piece in pieces:
                for event in read_events(piece):
                    yield event

    async def cancel(self, response_id: str) -> Response:
        """End a background response; the response as it is now."""
        return await self._open().background.cancel(DEFAULT_TENANT, response_id)

    async def delete(self, response_id: str) -> None:
        """Forget a response; one that is still being made is cancelled first."""
        await self._open().stored.delete(DEFAULT_TENANT, response_id)

    async def compact(self, **params: Any) -> CompactedResponse:
        """A conversation made short. Takes the parameters of ``POST /v1/responses/compact``."""
        compactor = self._open().creator.compactor
        return await compactor.compact(msgspec.json.encode(params), DEFAULT_TENANT)

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

    async def _events(self, request: CreateResponse) -> AsyncGenerator[Event, None]:
        run = self._open().creator.start(request, DEFAULT_TENANT)
        try:
            async with aclosing(run.events()) as batches:
                async for events in batches:
                    for event in events:
                        yield event
        finally:
            await run.abandon()  # which does nothing if it has ended

    def _open(self) -> Services:
        if self._services is None:
            raise SettingsError("Antiphon is not open: use it as `async with Antiphon() as antiphon:`.")
        return self._services
