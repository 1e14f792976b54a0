"""Asks a running Responses server over HTTP: ours, or any other."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from antiphon.backends.exchange import HEARTBEAT, Exchange
from antiphon.backends.http import EVENT_STREAM, Upstream
from antiphon.backends.redact import excerpt, redact
from antiphon.backends.registry import Endpoint
from antiphon.cli.heard import Ended, Heard, hear
from antiphon.errors import BackendBroken, BackendRefused, RequestError, SettingsError
from antiphon.protocol.content import JsonObject
from antiphon.protocol.sse import LineTooLong, SseReader

API_KEY = "ANTIPHON_API_KEY"


class _Error(Struct, frozen=True):
    message: str = ""


class _Refusal(Struct, frozen=True):
    error: _Error


class _Model(Struct, frozen=True):
    id: str


class _Models(Struct, frozen=True):
    data: list[_Model]


class Remote:
    """One server."""

    def __init__(self, endpoint: Endpoint) -> None:
        headers = {"content-type": "application/json"}
        if endpoint.api_key:
            headers["authorization"] = f"Bearer {endpoint.api_key}"
        self._endpoint = endpoint
        self._upstream = Upstream(endpoint, _refused, headers=headers)

    async def stream(self, params: JsonObject) -> AsyncGenerator[Heard, None]:
        """The answer as it comes."""
        broken = "The server broke off before the answer ended."
        async with self._opened("POST", "responses", {**params, "stream": True}) as exchange:
            if exchange.media_type != EVENT_STREAM:
                raise BackendBroken(f"{self._endpoint.name} answered without a stream; try --no-stream.")
            async with aclosing(self._events(exchange)) as events:
                async for event in events:
                    heard = hear(event)
                    if heard is not None:
                        yield heard
                    if isinstance(heard, Ended):
                        return
                    if event.get("type") == "error":
                        broken = _fault(event) or broken
        raise BackendBroken(broken)

    async def create(self, params: JsonObject) -> Ended:
        """The answer, whole."""
        return Ended.of(await self._ask("POST", "responses", params, JsonObject))

    async def get(self, path: str) -> JsonObject:
        """Whatever the server keeps under this path."""
        return await self._ask("GET", path, None, JsonObject)

    async def models(self) -> list[str]:
        """What the server lists."""
        return [model.id for model in (await self._ask("GET", "models", None, _Models)).data]

    async def default_model(self) -> str:
        """The first that the server lists."""
        models = await self.models()
        if not models:
            raise SettingsError(f"{self._endpoint.name} lists no models. Name one with --model.")
        return models[0]

    def close(self) -> None:
        """Cut all connections."""
        self._upstream.pool.close()

    async def _ask(self, method: str, path: str, params: JsonObject | None, kind: Any) -> Any:
        async with self._opened(method, path, params) as exchange:
            while (body := await exchange.body()) is None:
                pass
        return self._decode(body, kind)

    @asynccontextmanager
    async def _opened(
        self, method: str, path: str, params: JsonObject | None
    ) -> AsyncGenerator[Exchange, None]:
        """The answer to a request, from its first byte on. It is asked once: a person may ask again."""
        body = b"" if params is None else msgspec.json.encode(params)
        request = self._upstream.request(method, path, body)
        exchange = Exchange(self._upstream, request, patience=self._endpoint.deadlines.answer, retries=0)
        try:
            while not await exchange.opened():
                pass
            yield exchange
        except BackendRefused as error:
            if 400 <= error.status < 500 and error.status not in (408, 409, 429):
                raise RequestError(error.message) from None
            raise
        except LineTooLong:
            raise BackendBroken(f"{self._endpoint.name} sent an event beyond the size limit.") from None
        finally:
            exchange.close(whole=False)

    async def _events(self, exchange: Exchange) -> AsyncGenerator[JsonObject, None]:
        reader = SseReader(self._endpoint.max_event_bytes)
        while (data := await exchange.read()) is not None:
            if data == HEARTBEAT:
                continue
            for payload in reader.feed(data):
                exchange.alive(heard=True)
                if payload != b"[DONE]":
                    yield self._decode(payload, JsonObject)

    def _decode(self, body: bytes, kind: Any) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            said = excerpt(body, self._endpoint.secrets)
            message = f"{self._endpoint.name} did not answer as a Responses server does: {said}"
            raise BackendBroken(message) from None


def _fault(event: JsonObject) -> str:
    """The message of an `error` event; it is nested on the real wire, flat in some documents."""
    error = event.get("error")
    source = cast("JsonObject", error) if isinstance(error, dict) else event
    return str(source.get("message", ""))


def _refused(endpoint: Endpoint, status: int, _headers: Mapping[str, str], body: bytes) -> BackendRefused:
    """The server's own words, or what it sent instead of words."""
    try:
        message = redact(msgspec.json.decode(body, type=_Refusal).error.message, endpoint.secrets)
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = ""
    message = message or f"{endpoint.name} answered with status {status}: {excerpt(body, endpoint.secrets)}"
    hint = f" (the key is taken from {API_KEY})" if status == 401 else ""
    return BackendRefused(message + hint, status=status)


@asynccontextmanager
async def open_remote(base_url: str) -> AsyncGenerator[Remote, None]:
    """The server at this address; `/v1` is added to an address without a path."""
    base = base_url.rstrip("/")
    if "://" in base and not urlsplit(base).path:
        base += "/v1"
    remote = Remote(Endpoint(name=redact(base), base_url=base, api_key=os.environ.get(API_KEY, "")))
    try:
        yield remote
    finally:
        remote.close()
