"""`InProcessResponsesClient`: calls the service inside this process."""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from typing import Any, Protocol

import msgspec

from antiphon.errors import AntiphonError, ResponsesCallFailed
from antiphon.orchestrator.wire import to_strict
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import ErrorEvent, Event
from antiphon.protocol.response import Response


class ResponsesService(Protocol):
    """The service, called from within: `antiphon.Antiphon`, or the service of one tenant."""

    async def create(self, /, **params: Any) -> Response:
        """One response, whole. A failure is raised."""
        ...

    def stream(self, /, **params: Any) -> AsyncGenerator[Event, None]:
        """The events of one response; the last one is terminal. Who leaves early cancels it."""
        ...

    async def retrieve(self, response_id: str) -> Response:
        """A stored response."""
        ...

    async def models(self) -> list[str]:
        """The names of the models that can be asked."""
        ...


class InProcessResponsesClient:
    """The port `ResponsesClient`, without a network."""

    def __init__(self, service: ResponsesService, *, model: str | None = None) -> None:
        self._service = service
        self._model = model

    async def create(self, body: JsonObject) -> bytes:
        """One response, whole."""
        with _failures():
            return msgspec.json.encode(await self._service.create(**{**to_strict(body), "stream": False}))

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """The events of one response. An `error` is not told by itself: the terminal event says it too."""
        with _failures():
            async with aclosing(self._service.stream(**{**to_strict(body), "stream": True})) as events:
                async for event in events:
                    if not isinstance(event, ErrorEvent):
                        yield msgspec.to_builtins(event)

    async def retrieve(self, response_id: str) -> bytes:
        """A stored response."""
        with _failures():
            return msgspec.json.encode(await self._service.retrieve(response_id))

    async def default_model(self) -> str:
        """The model that was given, else the first that the service lists."""
        if self._model is None:
            with _failures():
                models = await self._service.models()
            if not models:
                message = "The service does not tell its models. Name the one to ask."
                raise ResponsesCallFailed(message, status=404, code="model_not_found")
            self._model = models[0]
        return self._model


@contextmanager
def _failures() -> Generator[None, None, None]:
    """What the service raises, as a server would have answered it."""
    try:
        yield
    except AntiphonError as error:
        body = msgspec.json.encode({"error": error.to_wire()})
        failure = ResponsesCallFailed(error.message, status=error.status, body=body, code=error.code)
        failure.retry_after = error.retry_after
        raise failure from error
