"""The port `ResponsesClient`, and the implementations that need no network.

`antiphon.orchestrator.http_client` implements it over HTTP.
"""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, ResponsesCallFailed
from antiphon.orchestrator.wire import items_of, to_strict
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import TERMINAL_TYPES, ErrorEvent, Event
from antiphon.protocol.response import Response


class ResponsesClient(Protocol):
    """Calls `/responses`. It takes literal bodies, which `antiphon.orchestrator.wire` makes strict.

    An error status or an invalid answer is raised as `ResponsesCallFailed` with status and body; so is a
    server that cannot be reached (502) or passes a deadline (504).
    """

    async def create(self, body: JsonObject) -> bytes:
        """Create a response: its JSON as received. A failed response is returned, not raised."""
        ...

    def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """Create a response and yield its events; the last one is terminal. Closing early cancels it."""
        ...

    async def retrieve(self, response_id: str) -> bytes:
        """A stored response: its JSON as received."""
        ...

    async def default_model(self) -> str:
        """The model to use when none is given."""
        ...


class ResponsesService(Protocol):
    """The service in this process: `antiphon.Antiphon`, or the service of one tenant."""

    async def create(self, /, **params: Any) -> Response:
        """Create a response. A failure is raised."""
        ...

    def stream(self, /, **params: Any) -> AsyncGenerator[Event, None]:
        """Create a response and yield its events; the last one is terminal. Closing cancels it."""
        ...

    async def retrieve(self, response_id: str) -> Response: ...

    async def models(self) -> list[str]: ...


class InProcessResponsesClient:
    """The port `ResponsesClient` over the service of this process."""

    def __init__(self, service: ResponsesService, *, model: str | None = None) -> None:
        self._service = service
        self._model = model

    async def create(self, body: JsonObject) -> bytes:
        with raised_as_sent():
            return msgspec.json.encode(await self._service.create(**{**to_strict(body), "stream": False}))

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """The events of one response, without `error`: the terminal event carries the error too."""
        with raised_as_sent():
            async with aclosing(self._service.stream(**{**to_strict(body), "stream": True})) as events:
                async for event in events:
                    if not isinstance(event, ErrorEvent):
                        yield msgspec.to_builtins(event)

    async def retrieve(self, response_id: str) -> bytes:
        with raised_as_sent():
            return msgspec.json.encode(await self._service.retrieve(response_id))

    async def default_model(self) -> str:
        """The configured model, else the first that the service lists."""
        if self._model is None:
            with raised_as_sent():
                models = await self._service.models()
            if not models:
                message = "The service lists no models. Name the model to use."
                raise ResponsesCallFailed(message, status=404, code="model_not_found")
            self._model = models[0]
        return self._model


@contextmanager
def raised_as_sent() -> Generator[None, None, None]:
    """Raise the service's errors as a server would send them."""
    try:
        yield
    except AntiphonError as error:
        body = msgspec.json.encode({"error": error.to_wire()})
        failure = ResponsesCallFailed(error.message, status=error.status, body=body, code=error.code)
        failure.retry_after = error.retry_after
        raise failure from error


MAX_REMEMBERED_RESPONSES = 1_000


class _Answer(Struct):
    id: Any = None
    output: Any = None


class _Remembered(Struct, frozen=True):
    """A response with its complete history."""

    raw: bytes
    items: Sequence[object]
    tools: object


class RememberingClient:
    """The port `ResponsesClient` over another client, for a server that stores nothing. A continuation is
    sent as the complete conversation so far, with its tools and without `previous_response_id`.

    Conversations are held in memory; beyond `limit` responses, the oldest are dropped.
    """

    def __init__(self, client: ResponsesClient, *, limit: int = MAX_REMEMBERED_RESPONSES) -> None:
        self._client = client
        self._limit = limit
        self._remembered: dict[str, _Remembered] = {}

    async def create(self, body: JsonObject) -> bytes:
        sent = self._expanded(body)
        raw = await self._client.create(sent)
        self._remember(sent, raw)
        return raw

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        sent = self._expanded(body)
        async with aclosing(self._client.stream(sent)) as events:
            async for event in events:
                if event.get("type") in TERMINAL_TYPES:
                    self._remember(sent, msgspec.json.encode(event.get("response")))
                yield event

    async def retrieve(self, response_id: str) -> bytes:
        """A remembered response; any other is requested from the server."""
        found = self._remembered.get(response_id)
        return await self._client.retrieve(response_id) if found is None else found.raw

    async def default_model(self) -> str:
        return await self._client.default_model()

    def _expanded(self, body: JsonObject) -> JsonObject:
        previous = body.get("previous_response_id")
        if not previous:
            return {**body, "store": False}
        found = self._remembered.get(previous)
        if found is None:
            message = f"The response '{previous}' is not remembered here. Start a new conversation."
            raise ResponsesCallFailed(message, status=400, code="previous_response_not_found")
        expanded = {name: value for name, value in body.items() if name != "previous_response_id"}
        if found.tools is not None:
            expanded.setdefault("tools", found.tools)
        return {**expanded, "store": False, "input": [*found.items, *items_of(body.get("input"))]}

    def _remember(self, sent: JsonObject, raw: bytes) -> None:
        try:
            answer = msgspec.json.decode(raw, type=_Answer)
        except (msgspec.MsgspecError, UnicodeError):
            return  # not a response, so it cannot be continued; the caller sees the same bytes
        if not isinstance(answer.id, str):
            return
        items = [*items_of(sent.get("input")), *filter(_is_resendable, items_of(answer.output))]
        self._remembered[answer.id] = _Remembered(raw, items, sent.get("tools"))
        if len(self._remembered) > self._limit:
            del self._remembered[next(iter(self._remembered))]


def _is_resendable(item: object) -> bool:
    """Whether an item can be sent again: reasoning without its encrypted content is a mere reference."""
    body = cast("JsonObject", item) if isinstance(item, dict) else {}
    return body.get("type") != "reasoning" or bool(body.get("encrypted_content"))
