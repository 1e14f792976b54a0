"""`Antiphon`: the complete service in your process, without a port.

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
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from antiphon.caller import DEFAULT_TENANT
from antiphon.errors import SettingsError
from antiphon.protocol.compact import CompactedResponse
from antiphon.protocol.events import Event
from antiphon.protocol.response import Response
from antiphon.service.routing.router import Route
from antiphon.service.tenant_service import TenantService
from antiphon.settings import Settings, load_settings
from antiphon.wiring import build_app, open_services

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Antiphon:
    """The service. `routes`: your own backends, instead of the configured ones."""

    def __init__(self, settings: Settings | None = None, *, routes: Sequence[Route] | None = None) -> None:
        self._settings = settings or load_settings()
        self._routes = routes
        self._stack = AsyncExitStack()
        self._service: TenantService | None = None

    async def __aenter__(self) -> Self:
        services = await self._stack.enter_async_context(open_services(self._settings, self._routes))
        self._service = TenantService(services, DEFAULT_TENANT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._service = None
        await self._stack.aclose()

    async def create(self, /, **params: Any) -> Response:
        """Create a response; with `background=True` it is queued. A failure is raised.

        Takes the parameters of ``POST /v1/responses``.
        """
        return await self._open().create(**params)

    def stream(self, /, **params: Any) -> AsyncGenerator[Event, None]:
        """The events of one response as they arrive. Closing the stream early cancels the response, unless it
        runs in the background."""
        return self._open().stream(**params)

    async def retrieve(self, response_id: str) -> Response:
        """A stored response; an unfinished one in its current state."""
        return await self._open().retrieve(response_id)

    def follow(self, response_id: str, after: int = -1) -> AsyncGenerator[Event, None]:
        """The events of a background response with numbers above `after`: the stored ones, then new ones.

        Closing the stream does not affect the response; it can be followed again.
        """
        return self._open().follow(response_id, after)

    async def cancel(self, response_id: str) -> Response:
        """Cancel a background response; returns its current state."""
        return await self._open().cancel(response_id)

    async def delete(self, response_id: str) -> None:
        """Delete a response; an unfinished one is cancelled first."""
        await self._open().delete(response_id)

    async def compact(self, /, **params: Any) -> CompactedResponse:
        """Compact a conversation. Takes the parameters of ``POST /v1/responses/compact``."""
        return await self._open().compact(**params)

    async def models(self) -> list[str]:
        """The names of the available models."""
        return await self._open().models()

    def openai_client(self) -> "AsyncOpenAI":
        """An official `openai.AsyncOpenAI`, bound to this object in memory; needs ``antiphon[openai]``."""
        try:
            from openai import AsyncOpenAI  # noqa: PLC0415 -- optional: the [openai] extra

            from antiphon.server.memory import memory_client  # noqa: PLC0415 -- needs the SDK's HTTP library
        except ImportError:
            raise SettingsError("openai_client() needs the SDK: pip install 'antiphon[openai]'.") from None
        app = build_app(self._settings, routes=self._routes)
        app.mount(self._open().services)
        return AsyncOpenAI(
            base_url="http://localhost/v1",
            api_key=next(iter(self._settings.server.api_keys), "in-memory"),
            http_client=memory_client(app),
            max_retries=0,
        )

    def _open(self) -> TenantService:
        if self._service is None:
            raise SettingsError("Antiphon is not open: use it as `async with Antiphon() as antiphon:`.")
        return self._service
