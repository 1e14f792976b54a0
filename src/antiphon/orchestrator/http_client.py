"""`HttpResponsesClient`: calls a Responses server over HTTP, Antiphon or any other."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from antiphon.errors import BackendBroken, BackendError, ResponsesCallFailed
from antiphon.http.client import EVENT_STREAM, JSON, MAX_ERROR_BYTES, HttpClient, retry_after
from antiphon.http.exchange import HEARTBEAT, Exchange
from antiphon.http.redact import excerpt, redact
from antiphon.http.target import DEFAULT_DEADLINES, Deadlines, Target
from antiphon.orchestrator.wire import SentTools, to_strict
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import TERMINAL_TYPES
from antiphon.protocol.sse import LineTooLong, SseReader

NO_STREAM = "no_stream"
"""The error code of a server that did not answer a streaming request with a stream."""

MAX_EVENT_BYTES = 8 * 1024 * 1024

_Kind = TypeVar("_Kind")


class _Fault(Struct, frozen=True):
    message: str = ""
    code: str | int | None = None


class _Refusal(Struct, frozen=True):
    error: _Fault


class _Named(Struct, frozen=True):
    id: Any = None


class _Model(Struct, frozen=True):
    id: str


class _Models(Struct, frozen=True):
    data: list[_Model]


class HttpResponsesClient:
    """The port `ResponsesClient` for the server at `base_url`; `/v1` is added to an address without a path.

    A request is retried up to `retries` times while no answer has begun. `resend_tools` is for servers that
    do not inherit the tools of the previous response.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        resend_tools: bool = False,
        retries: int = 2,
        deadlines: Deadlines = DEFAULT_DEADLINES,
    ) -> None:
        base = _with_path(base_url)
        headers = {"content-type": JSON}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        self._target = Target(
            name=redact(base),
            base_url=base,
            headers=headers,
            secrets=(api_key,) if api_key else (),
            retries=retries,
            deadlines=deadlines,
        )
        self._client = HttpClient(self._target, partial(_refused, self._target))
        self._model = model
        self._sent_tools = SentTools() if resend_tools else None

    @property
    def name(self) -> str:
        """The address without credentials."""
        return self._target.name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        self._client.close()

    async def create(self, body: JsonObject) -> bytes:
        sent = self._prepare(body, stream=False)
        answer = await self._ask("POST", "responses", sent)
        self._remember(self._decode(answer, _Named).id, sent)
        return answer

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """The events of one response, without `error`: the terminal event carries the error too, and if none
        arrives, the error is raised."""
        sent = self._prepare(body, stream=True)
        end: JsonObject | None = None
        fault: JsonObject = {}
        async with (
            self._opened("POST", "responses", sent) as exchange,
            aclosing(self._events(exchange)) as events,
        ):
            async for event in events:
                kind = str(event.get("type"))
                if kind in TERMINAL_TYPES:
                    end = event
                    break  # yield it after the connection is released
                if kind == "error":
                    fault = event
                else:
                    yield event
        if end is None:
            raise self._broken_off(fault)
        response = end.get("response")
        if isinstance(response, dict):
            self._remember(cast("JsonObject", response).get("id"), sent)
        yield end

    async def retrieve(self, response_id: str) -> bytes:
        return await self.get(f"responses/{quote(response_id, safe='')}")

    async def get(self, path: str) -> bytes:
        """The JSON object at a path of the server."""
        answer = await self._ask("GET", path)
        self._decode(answer, _Named)
        return answer

    async def models(self) -> list[str]:
        return [model.id for model in self._decode(await self._ask("GET", "models"), _Models).data]

    async def default_model(self) -> str:
        """The configured model, else the first that the server lists."""
        if self._model is None:
            models = await self.models()
            if not models:
                message = f"{self.name} lists no models. Name the model to use."
                raise ResponsesCallFailed(message, status=404, code="model_not_found")
            self._model = models[0]
        return self._model

    def _prepare(self, body: JsonObject, *, stream: bool) -> JsonObject:
        strict = {**to_strict(body), "stream": stream}
        return strict if self._sent_tools is None else self._sent_tools.fill_in(strict)

    def _remember(self, response_id: object, sent: JsonObject) -> None:
        if self._sent_tools is not None and isinstance(response_id, str):
            self._sent_tools.remember(response_id, sent)

    async def _ask(self, method: str, path: str, params: JsonObject | None = None) -> bytes:
        async with self._opened(method, path, params) as exchange:
            while (body := await exchange.body()) is None:
                pass
        return body

    @asynccontextmanager
    async def _opened(
        self, method: str, path: str, params: JsonObject | None
    ) -> AsyncGenerator[Exchange, None]:
        """The answer to a request, from its first byte on. An exception closes the connection."""
        body = b"" if params is None else msgspec.json.encode(params)
        deadlines, streamed = self._target.deadlines, params is not None and params.get("stream")
        exchange = Exchange(
            self._client,
            self._client.request(method, path, body),
            first_byte=deadlines.first_byte if streamed else deadlines.answer,
        )
        complete = False
        try:
            while not await exchange.opened():
                pass
            yield exchange
            complete = True
        except ResponsesCallFailed:
            raise
        except BackendError as error:
            raise ResponsesCallFailed(error.message, status=error.status, code=error.code) from None
        finally:
            exchange.close(complete=complete)

    async def _events(self, exchange: Exchange) -> AsyncGenerator[JsonObject, None]:
        """Every event up to `[DONE]` or the end of the stream."""
        if exchange.media_type != EVENT_STREAM:
            raise ResponsesCallFailed(f"{self.name} answered without a stream.", status=502, code=NO_STREAM)
        reader = SseReader(MAX_EVENT_BYTES)
        ended = False
        while not ended:
            data = await exchange.read()
            if data == HEARTBEAT:
                continue
            ended = data is None
            for payload in self._cut(reader, data):
                exchange.progress(delivered=True)
                if payload.strip() == b"[DONE]":
                    return
                yield self._decode(payload, JsonObject)

    def _cut(self, reader: SseReader, data: bytes | None) -> list[bytes]:
        """The payloads that these bytes complete; None is the end, which may come without a blank line."""
        try:
            return reader.finish() if data is None else reader.feed(data)
        except LineTooLong:
            message = f"{self.name} sent an event beyond the size limit."
            raise ResponsesCallFailed(message, status=502, code=BackendBroken.code) from None

    def _decode(self, body: bytes, kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            sent = excerpt(body, self._target.secrets)
            raise ResponsesCallFailed(
                f"{self.name} did not answer like a Responses server: {sent}",
                status=502,
                body=_without_secrets(body, self._target),
                code=BackendBroken.code,
            ) from None

    def _broken_off(self, event: JsonObject) -> ResponsesCallFailed:
        """The error for a stream without a terminal event. `event` is the `error` that was sent instead, if
        any: nested on the real wire, flat in some documents."""
        error = event.get("error")
        fault = cast("JsonObject", error) if isinstance(error, dict) else event
        message = redact(str(fault.get("message") or ""), self._target.secrets)
        code = fault.get("code")
        return ResponsesCallFailed(
            message or "The server closed the stream before the response ended.",
            status=502,
            body=_without_secrets(msgspec.json.encode({"error": fault}), self._target) if fault else b"",
            code=BackendBroken.code if code is None else str(code),
        )


def _with_path(base_url: str) -> str:
    base = base_url.rstrip("/")
    return f"{base}/v1" if "://" in base and not urlsplit(base).path else base


def _refused(target: Target, status: int, headers: Mapping[str, str], body: bytes) -> ResponsesCallFailed:
    """The server's error message, else an excerpt of its body."""
    try:
        fault = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        fault = _Fault()
    message = redact(fault.message, target.secrets)
    failure = ResponsesCallFailed(
        message or f"{target.name} answered with status {status}: {excerpt(body, target.secrets)}",
        status=status,
        body=_without_secrets(body, target),
        code=None if fault.code is None else str(fault.code),
    )
    failure.retry_after = retry_after(headers)
    return failure


def _without_secrets(body: bytes, target: Target) -> bytes:
    """The beginning of a body, with our key redacted."""
    for secret in target.secrets:
        body = re.sub(rb"(?<![\w-])%b(?![\w-])" % re.escape(secret.encode()), b"[redacted]", body)
    return body[:MAX_ERROR_BYTES]
