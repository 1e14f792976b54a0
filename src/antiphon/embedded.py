"""`Antiphon`: the complete service in your process, without a port; `SyncAntiphon`: the same without `await`.

async with Antiphon() as antiphon:
    response = await antiphon.create(model="local", input="Hello")
    print(response.output_text)
    async for event in antiphon.stream(model="local", input="Hello"):
        ...
    queued = await antiphon.create(model="local", input="Hello", background=True)
    async for event in antiphon.follow(queued.id):
        ...
    client = antiphon.openai_client()   # the official SDK, bound to this object in memory
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec.structs import replace

from antiphon.caller import OPERATOR
from antiphon.errors import SettingsError
from antiphon.extras import install_command
from antiphon.protocol.compact import CompactedResponse
from antiphon.protocol.events import Event
from antiphon.protocol.response import Response
from antiphon.service.routing.router import Route
from antiphon.service.tenant_service import TenantService
from antiphon.settings import Settings, UpstreamSettings, load_settings
from antiphon.settings.loading import check_settings
from antiphon.wiring import build_app, open_services

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")


class Antiphon:
    """The service. Everything but `model` and `routes` replaces a part of the settings, which are read as the
    server reads them."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        upstream: str | UpstreamSettings | None = None,
        api_key: str = "",
        model: str | None = None,
        store: str | None = None,
        routes: Sequence[Route] | None = None,
    ) -> None:
        """`upstream`: the base URL of a model server, or all about it, in place of the configured upstreams;
        `api_key`: its key. `model`: the model of requests that name none. `store`: where responses are
        stored, `memory:` for example. `routes`: your own backends, in place of the configured ones."""
        self._settings = _with_arguments(settings or load_settings(), upstream, api_key, store)
        self._model = model
        self._routes = routes
        self._stack = AsyncExitStack()
        self._service: TenantService | None = None

    async def __aenter__(self) -> Self:
        services = await self._stack.enter_async_context(open_services(self._settings, self._routes))
        self._service = TenantService(services, OPERATOR)
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
        return await self._open().create(**self._named(params))

    def stream(self, /, **params: Any) -> AsyncGenerator[Event, None]:
        """The events of one response as they arrive. Closing the stream early cancels the response, unless it
        runs in the background."""
        return self._open().stream(**self._named(params))

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
        return await self._open().compact(**self._named(params))

    async def models(self) -> list[str]:
        """The names of the available models."""
        return await self._open().models()

    def openai_client(self) -> "AsyncOpenAI":
        """An official `openai.AsyncOpenAI`, bound to this object in memory; needs ``antiphon[openai]``."""
        try:
            from openai import AsyncOpenAI  # noqa: PLC0415 -- optional: the [openai] extra

            from antiphon.server.memory import memory_client  # noqa: PLC0415 -- needs the SDK's HTTP library
        except ImportError:
            raise SettingsError(f"openai_client() needs the SDK: {install_command('openai')}") from None
        app = build_app(self._settings, routes=self._routes)
        app.mount(self._open().services)
        return AsyncOpenAI(
            base_url="http://localhost/v1",
            api_key=next(iter(self._settings.server.api_keys), "in-memory"),
            http_client=memory_client(app),
            max_retries=0,
        )

    def _named(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters with the model of this object, if they name none."""
        return params if self._model is None else {"model": self._model, **params}

    def _open(self) -> TenantService:
        if self._service is None:
            raise SettingsError("Antiphon is not open: use it as `async with Antiphon() as antiphon:`.")
        return self._service


class SyncAntiphon:
    """`Antiphon` for programs without `async`, and for notebooks: its event loop runs in a thread.

    Takes the arguments of `Antiphon`. Close a stream that you do not read to its end, with `closing(…)`.
    """

    def __init__(self, settings: Settings | None = None, **arguments: Any) -> None:
        self._antiphon = Antiphon(settings, **arguments)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._streams: set[AsyncGenerator[Event, None]] = set()
        """Those that are not read to their end."""

    def __enter__(self) -> Self:
        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="antiphon", daemon=True)
        self._thread.start()
        try:
            self._wait(self._antiphon.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self._streams:
                self._wait(self._streams.pop().aclose())
            self._wait(self._antiphon.__aexit__(kind, error, trace))
        finally:
            self._end()

    def create(self, /, **params: Any) -> Response:
        """Create a response; with `background=True` it is queued. A failure is raised."""
        return self._wait(self._antiphon.create(**params))

    def stream(self, /, **params: Any) -> Generator[Event, None, None]:
        """The events of one response as they arrive. Closing the stream early cancels the response, unless it
        runs in the background."""
        return self._events(lambda: self._antiphon.stream(**params))

    def retrieve(self, response_id: str) -> Response:
        """A stored response; an unfinished one in its current state."""
        return self._wait(self._antiphon.retrieve(response_id))

    def follow(self, response_id: str, after: int = -1) -> Generator[Event, None, None]:
        """The events of a background response with numbers above `after`."""
        return self._events(lambda: self._antiphon.follow(response_id, after))

    def cancel(self, response_id: str) -> Response:
        """Cancel a background response; returns its current state."""
        return self._wait(self._antiphon.cancel(response_id))

    def delete(self, response_id: str) -> None:
        """Delete a response; an unfinished one is cancelled first."""
        self._wait(self._antiphon.delete(response_id))

    def compact(self, /, **params: Any) -> CompactedResponse:
        """Compact a conversation."""
        return self._wait(self._antiphon.compact(**params))

    def models(self) -> list[str]:
        """The names of the available models."""
        return self._wait(self._antiphon.models())

    def _events(self, begin: Callable[[], AsyncGenerator[Event, None]]) -> Generator[Event, None, None]:
        events = begin()
        self._streams.add(events)
        try:
            while (event := self._wait(anext(events, None))) is not None:
                yield event
        finally:
            if events in self._streams:  # otherwise it was closed with the service
                self._streams.discard(events)
                self._wait(events.aclose())

    def _wait(self, work: Awaitable[T]) -> T:
        """The result of work on the loop's thread. If the wait is interrupted, the work is cancelled."""

        async def run() -> T:
            return await work

        if self._loop is None:
            if isinstance(work, Coroutine):
                work.close()
            raise SettingsError("Antiphon is not open: use it as `with SyncAntiphon() as antiphon:`.")
        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _with_arguments(
    settings: Settings, upstream: str | UpstreamSettings | None, api_key: str, store: str | None
) -> Settings:
    if isinstance(upstream, str):
        upstream = UpstreamSettings(base_url=upstream)
    if api_key and upstream is None:
        raise SettingsError("`api_key` is the key of an `upstream`: give both.")
    if upstream is not None:
        upstream = replace(upstream, api_key=api_key) if api_key else upstream
        settings = replace(settings, upstreams=(upstream,))
    if store is not None:
        settings = replace(settings, store=replace(settings.store, url=store))
    return check_settings(settings)
