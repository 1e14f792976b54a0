"""Asks a running Responses server over HTTP: ours, or any other."""

import os
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager

import msgspec

from antiphon.cli.heard import Ended, Heard, hear
from antiphon.errors import AntiphonError, BackendRefused, RequestError, ResponsesCallFailed, SettingsError
from antiphon.http.target import Deadlines
from antiphon.orchestrator.http_client import NO_STREAM, HttpResponsesClient
from antiphon.protocol.content import JsonObject

API_KEY = "ANTIPHON_API_KEY"

_TEMPORARY = frozenset({408, 409, 429})
"""Refusals that are nobody's fault: asked again later, the same question may be answered."""
_DEADLINES = Deadlines(first_byte=600.0)
"""A person can end the wait at any time."""


class Remote:
    """One server. What it refuses because of the question is raised as a `RequestError`."""

    def __init__(self, client: HttpResponsesClient) -> None:
        self._client = client

    async def stream(self, params: JsonObject) -> AsyncGenerator[Heard, None]:
        """The answer as it comes."""
        with refusals():
            async with aclosing(self._client.stream(params)) as events:
                async for event in events:
                    heard = hear(event)
                    if heard is not None:
                        yield heard

    async def create(self, params: JsonObject) -> Ended:
        """The answer, whole."""
        with refusals():
            return Ended.of(msgspec.json.decode(await self._client.create(params)))

    async def get(self, path: str) -> JsonObject:
        """Whatever the server keeps under this path."""
        with refusals():
            return msgspec.json.decode(await self._client.get(path))

    async def models(self) -> list[str]:
        """What the server lists."""
        with refusals():
            return await self._client.models()

    async def default_model(self) -> str:
        """The first that the server lists."""
        models = await self.models()
        if not models:
            raise SettingsError(f"{self._client.name} lists no models. Name one with --model.")
        return models[0]


@contextmanager
def refusals() -> Generator[None, None, None]:
    """Failed calls, as the command line tells them."""
    try:
        yield
    except ResponsesCallFailed as failure:
        raise _on_the_command_line(failure) from None


def _on_the_command_line(failure: ResponsesCallFailed) -> AntiphonError:
    """What a failed call means there, and what can be done about it."""
    message, status = failure.message, failure.status
    if failure.code == NO_STREAM:
        message = f"{message.removesuffix('.')}; try --no-stream."
    if status == 401:
        message += f" (the key is taken from {API_KEY})"
    if 400 <= status < 500 and status not in _TEMPORARY:
        return RequestError(message)
    return BackendRefused(message, status=status, code=failure.code)


@asynccontextmanager
async def open_remote(base_url: str) -> AsyncGenerator[Remote, None]:
    """The server at this address; `/v1` is added to an address without a path.

    It is asked once: a person may ask again.
    """
    key = os.environ.get(API_KEY)
    async with HttpResponsesClient(base_url, api_key=key, retries=0, deadlines=_DEADLINES) as client:
        yield Remote(client)
