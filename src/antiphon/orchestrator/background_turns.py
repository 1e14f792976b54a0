"""The port `BackgroundResponses`: turns that survive their process, and its implementation in this process.

A response in the background records its calls of hosted tools and resumes from that record. A run journals
the id before it submits the response, so a resumed run finds the response instead of repeating its calls.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Protocol

import msgspec

from antiphon.errors import NotFound
from antiphon.orchestrator.client import raised_as_sent
from antiphon.orchestrator.wire import to_strict
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import ErrorEvent, Event
from antiphon.protocol.response import Response

_UNFINISHED = frozenset({"queued", "in_progress"})


class BackgroundResponses(Protocol):
    """Responses in the background, with ids that the caller chooses. Bodies and errors are those of
    `ResponsesClient`."""

    def new_id(self) -> str:
        """An id for `submit`."""
        ...

    async def submit(self, body: JsonObject, response_id: str) -> bytes | None:
        """Submit a response, unless one was submitted with this id: then that one goes on. Returns the JSON
        of a response that has ended; None: it can be followed."""
        ...

    def follow(self, response_id: str) -> AsyncGenerator[JsonObject, None]:
        """Yield all events of a response from the first one on; the last one is terminal. Closing early does
        not affect the response."""
        ...

    async def cancel(self, response_id: str) -> None:
        """End a response. Nothing happens if it has ended or does not exist."""
        ...


class BackgroundService(Protocol):
    """The service of one tenant in this process."""

    def new_response_id(self) -> str: ...

    async def submit(self, response_id: str, /, **params: Any) -> Response: ...

    def follow(self, response_id: str) -> AsyncGenerator[Event, None]: ...

    async def cancel(self, response_id: str) -> Response: ...


class InProcessBackgroundResponses:
    """The port `BackgroundResponses` over the service of this process."""

    def __init__(self, service: BackgroundService) -> None:
        self._service = service

    def new_id(self) -> str:
        return self._service.new_response_id()

    async def submit(self, body: JsonObject, response_id: str) -> bytes | None:
        params = {**to_strict(body), "stream": False, "background": True}
        with raised_as_sent():
            response = await self._service.submit(response_id, **params)
        return None if response.status in _UNFINISHED else msgspec.json.encode(response)

    async def follow(self, response_id: str) -> AsyncGenerator[JsonObject, None]:
        """The events without `error`: the terminal event carries the error too."""
        with raised_as_sent():
            async with aclosing(self._service.follow(response_id)) as events:
                async for event in events:
                    if not isinstance(event, ErrorEvent):
                        yield msgspec.to_builtins(event)

    async def cancel(self, response_id: str) -> None:
        with suppress(NotFound):
            await self._service.cancel(response_id)
