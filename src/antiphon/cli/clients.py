"""Clients of the Responses API that the commands use: the service in this process, or a server over HTTP."""

import os
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from typing import Protocol

import msgspec

from antiphon.cli.answers import Answer, AnswerPart, read_event
from antiphon.cli.options import API_KEY_VARIABLE
from antiphon.embedded import Antiphon
from antiphon.errors import AntiphonError, BackendRefused, RequestError, ResponsesCallFailed, SettingsError
from antiphon.http.target import Deadlines
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.http_client import NO_STREAM, HttpResponsesClient
from antiphon.orchestrator.in_process_client import InProcessResponsesClient
from antiphon.orchestrator.remembering_client import RememberingClient
from antiphon.protocol.content import JsonObject
from antiphon.settings import Settings

_TEMPORARY_STATUSES = frozenset({408, 409, 429})
"""Refusals after which the same request may succeed later."""
_DEADLINES = Deadlines(first_byte=600.0)
"""Long: a person can interrupt the wait at any time."""


class Client(Protocol):
    """Answers questions. Errors are raised, or reported by an `Answer` with a `failure`."""

    def stream(self, params: JsonObject) -> AsyncGenerator[AnswerPart, None]:
        """The parts of the answer as they arrive; the last one is the `Answer`."""
        ...

    async def create(self, params: JsonObject) -> Answer: ...

    async def models(self) -> list[str]: ...

    async def default_model(self) -> str:
        """The model to ask if the user named none."""
        ...


class InProcessClient:
    """Asks the service in this process."""

    def __init__(self, antiphon: Antiphon) -> None:
        self._antiphon = antiphon

    async def stream(self, params: JsonObject) -> AsyncGenerator[AnswerPart, None]:
        async with aclosing(self._antiphon.stream(**params)) as events:
            async for event in events:
                part = read_event(msgspec.to_builtins(event))
                if part is not None:
                    yield part

    async def create(self, params: JsonObject) -> Answer:
        return Answer.of(msgspec.to_builtins(await self._antiphon.create(**params)))

    async def models(self) -> list[str]:
        return await self._antiphon.models()

    async def default_model(self) -> str:
        models = await self.models()
        if not models:
            raise SettingsError("The upstream lists no models. Name one with --model.")
        return models[0]


class ServerClient:
    """Asks a Responses server, Antiphon or another one. A refusal of the request is a `RequestError`."""

    def __init__(self, client: HttpResponsesClient) -> None:
        self._client = client

    async def stream(self, params: JsonObject) -> AsyncGenerator[AnswerPart, None]:
        with translated_errors():
            async with aclosing(self._client.stream(params)) as events:
                async for event in events:
                    part = read_event(event)
                    if part is not None:
                        yield part

    async def create(self, params: JsonObject) -> Answer:
        with translated_errors():
            return Answer.of(msgspec.json.decode(await self._client.create(params)))

    async def get(self, path: str) -> JsonObject:
        """The JSON object at this path."""
        with translated_errors():
            return msgspec.json.decode(await self._client.get(path))

    async def models(self) -> list[str]:
        with translated_errors():
            return await self._client.models()

    async def default_model(self) -> str:
        models = await self.models()
        if not models:
            raise SettingsError(f"{self._client.name} lists no models. Name one with --model.")
        return models[0]


@contextmanager
def translated_errors() -> Generator[None, None, None]:
    """Raise failed calls as the errors that commands report."""
    try:
        yield
    except ResponsesCallFailed as failure:
        raise _command_error(failure) from None


def _command_error(failure: ResponsesCallFailed) -> AntiphonError:
    """The failed call, with advice about the options and variables that could change its outcome."""
    message, status = failure.message, failure.status
    if failure.code == NO_STREAM:
        message = f"{message.removesuffix('.')}; try --no-stream."
    if status == 401:
        message += f" (the key is taken from {API_KEY_VARIABLE})"
    if 400 <= status < 500 and status not in _TEMPORARY_STATUSES:
        return RequestError(message)
    return BackendRefused(message, status=status, code=failure.code)


def server_key() -> str | None:
    """The key for the server that a command asks, from the environment."""
    return os.environ.get(API_KEY_VARIABLE) or None


@asynccontextmanager
async def open_server_client(base_url: str) -> AsyncGenerator[ServerClient, None]:
    """A client of the server at this address; `/v1` is added to an address without a path.

    Failed calls are not retried: the user can repeat the command.
    """
    async with HttpResponsesClient(base_url, api_key=server_key(), retries=0, deadlines=_DEADLINES) as client:
        yield ServerClient(client)


@asynccontextmanager
async def open_in_process_client(settings: Settings) -> AsyncGenerator[Client, None]:
    """A client of the service with these settings, which runs as long as the context lasts."""
    async with Antiphon(settings) as antiphon:
        yield InProcessClient(antiphon)


def open_client(base_url: str | None, settings: Settings | None) -> AbstractAsyncContextManager[Client]:
    """A client of the server at `base_url`; without one, of the service with these settings."""
    return open_server_client(base_url) if base_url else open_in_process_client(settings or Settings())


@asynccontextmanager
async def open_agent_client(
    base_url: str | None, settings: Settings
) -> AsyncGenerator[ResponsesClient, None]:
    """The client of an agent in this process: of the server at `base_url`, or of the service."""
    if base_url is not None:
        # Other servers do not always inherit the tools of the previous response.
        async with HttpResponsesClient(base_url, api_key=server_key(), resend_tools=True) as client:
            yield client
    else:
        async with Antiphon(settings) as antiphon:
            client = InProcessResponsesClient(antiphon)
            yield RememberingClient(client) if settings.store.url == "none" else client
