"""`ChatCompletionsBackend`: runs turns on an OpenAI-compatible endpoint.

When somebody watches, the upstream is asked for a stream; when nobody does, for one JSON body, which costs a
quarter of it and makes the same chunks. What comes is read as what it says it is, whatever was asked for.
"""

import random
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from antiphon.backends.base import ModelInfo
from antiphon.backends.chat_completions.errors import refusal
from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.stream import ChunkReader
from antiphon.backends.chat_completions.wire import DECODE_ERRORS, decode_models
from antiphon.backends.exchange import HEARTBEAT, Chance, Exchange
from antiphon.backends.http import EVENT_STREAM, Upstream
from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendBroken, BackendError
from antiphon.protocol.sse import LineTooLong, SseReader
from antiphon.turn.chunks import Chunk, Failed, UsageReported
from antiphon.turn.context import TurnRequest

LAST_WORDS = 2.0
"""Seconds to wait for usage and the end mark once the answer is complete."""
MODELS_PATIENCE = 10.0


class ChatCompletionsBackend:
    """One endpoint, and the connections to it."""

    def __init__(self, endpoint: Endpoint, *, chance: Chance = random.random) -> None:
        headers = {"content-type": "application/json"}
        if endpoint.api_key:
            headers["authorization"] = f"Bearer {endpoint.api_key}"
        self._endpoint = endpoint
        self._upstream = Upstream(endpoint, refusal, headers=headers)
        self._chance = chance

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self._endpoint.name

    def prepare(self, turn: TurnRequest) -> "ChatTurn":
        """Translate a turn for this endpoint."""
        payload = build_payload(turn, self._endpoint.quirks)
        deadlines = self._endpoint.deadlines
        patience = deadlines.first_byte if turn.streamed else deadlines.answer

        def send() -> Exchange:
            return Exchange(
                self._upstream,
                self._upstream.request("POST", "chat/completions", msgspec.json.encode(payload.body)),
                patience=patience,
                retries=self._endpoint.retries,
                chance=self._chance,
            )

        return ChatTurn(self._endpoint, payload.downgrades, send)

    async def models(self) -> Sequence[ModelInfo]:
        """What ``GET /models`` says."""
        request = self._upstream.request("GET", "models")
        exchange = Exchange(self._upstream, request, patience=MODELS_PATIENCE, retries=0)
        body = None
        try:
            while not await exchange.opened():
                pass
            while (body := await exchange.body()) is None:
                pass
            found = decode_models(body).data or []
        except DECODE_ERRORS:
            message = f"The upstream '{self.name}' does not tell its models in OpenAI's format."
            raise BackendBroken(message) from None
        finally:
            exchange.close(whole=body is not None)
        return [ModelInfo(model.id, model.created or 0, model.owned_by or self.name) for model in found]

    async def aclose(self) -> None:
        """Cut all connections."""
        self._upstream.pool.close()


class ChatTurn:
    """A turn that is ready to be sent."""

    def __init__(self, endpoint: Endpoint, downgrades: tuple[str, ...], send: Callable[[], Exchange]) -> None:
        self.downgrades = downgrades
        self._endpoint = endpoint
        self._send = send

    async def chunks(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run it."""
        reader = ChunkReader(self._endpoint)
        sse = SseReader(self._endpoint.max_event_bytes)
        exchange = self._send()
        said = False
        try:
            while not await exchange.opened():
                yield ()
            streamed = exchange.media_type == EVENT_STREAM
            while not reader.over:
                if streamed:
                    batch = await _next_chunks(exchange, sse, reader)
                else:
                    batch = await _all_chunks(exchange, reader)
                if batch and not said:
                    _raise_failure(batch)
                    said = True
                yield batch
        finally:
            exchange.close(whole=reader.complete)


async def _next_chunks(exchange: Exchange, sse: SseReader, reader: ChunkReader) -> Sequence[Chunk]:
    """What the stream says next; nothing after a heartbeat of silence."""
    while True:
        if reader.finishing:
            exchange.hurry(LAST_WORDS)
        try:
            data = await exchange.read()
            if data == HEARTBEAT:
                return ()
            if data is None:
                return reader.end(sse.finish())
            payloads = sse.feed(data)
        except BackendError as error:
            return reader.lost(error)
        except LineTooLong:
            return reader.lost(BackendBroken("The upstream sent an event beyond the size limit."))
        chunks = reader.feed(payloads)
        if payloads:
            exchange.alive(heard=bool(chunks))
        if chunks:
            return chunks


async def _all_chunks(exchange: Exchange, reader: ChunkReader) -> Sequence[Chunk]:
    """What a whole completion says; nothing after a heartbeat of silence."""
    body = await exchange.body()
    return () if body is None else reader.whole(body)


def _raise_failure(batch: Sequence[Chunk]) -> None:
    """A turn that fails before it said anything is an error, and may be tried elsewhere."""
    last = batch[-1]
    if isinstance(last, Failed) and all(isinstance(chunk, UsageReported | Failed) for chunk in batch):
        raise last.error
