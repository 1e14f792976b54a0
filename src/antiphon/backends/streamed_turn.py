"""`StreamedTurn`: a turn over HTTP in any dialect: send the request, read the response, yield chunks.

A dialect has a `Reader`, which is sans-IO. The media type of the response determines whether it is read as a
stream of events or as one JSON body.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from antiphon.backends.payload import Payload
from antiphon.backends.sliced_json import encode_sliced
from antiphon.errors import BackendBroken, BackendError
from antiphon.http.client import EVENT_STREAM, HttpClient
from antiphon.http.exchange import HEARTBEAT, Chance, Exchange
from antiphon.protocol.sse import LineTooLong, SseReader
from antiphon.turn.chunks import HEARTBEAT as HEARTBEAT_BATCH
from antiphon.turn.chunks import Chunk, Failed, UsageReported
from antiphon.turn.trace import TurnTrace

END_TIMEOUT_SECONDS = 2.0
"""The wait for usage and the end marker after the last content."""


class Reader(Protocol):
    """Reads one answer: payloads in, chunks out."""

    @property
    def over(self) -> bool:
        """Whether the last chunk was returned."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the answer ended without an error."""
        ...

    @property
    def finishing(self) -> bool:
        """Whether the content is complete, though the stream has not ended."""
        ...

    def feed(self, payloads: Iterable[bytes]) -> Sequence[Chunk]:
        """The chunks in the data of these events."""
        ...

    def end(self, rest: Iterable[bytes] = ()) -> Sequence[Chunk]:
        """The last chunks, when the stream has ended. `rest` came without a blank line, and may be half."""
        ...

    def lost(self, error: BackendError) -> Sequence[Chunk]:
        """The last chunks, when no more can be read. That is a failure unless the answer was complete."""
        ...

    def read_body(self, body: bytes) -> Sequence[Chunk]:
        """The chunks of an answer that came in one piece."""
        ...


class StreamedTurn:
    """A turn that is ready to be sent to `path` of a client's target. `first_byte`: how many seconds its
    answer may take to begin."""

    __slots__ = (
        "_chance",
        "_client",
        "_first_byte",
        "_is_large",
        "_max_event_bytes",
        "_new_reader",
        "_path",
        "_payload",
        "downgrades",
        "trace",
        "unenforced",
    )

    def __init__(
        self,
        client: HttpClient,
        path: str,
        payload: Payload,
        new_reader: Callable[[], Reader],
        *,
        first_byte: float,
        max_event_bytes: int,
        is_large: bool = False,
        chance: Chance,
    ) -> None:
        self.downgrades = payload.downgrades
        self.unenforced = payload.unenforced
        self._client = client
        self._path = path
        self._payload = payload
        self._new_reader = new_reader
        self._first_byte = first_byte
        self._max_event_bytes = max_event_bytes
        self._is_large = is_large
        self._chance = chance
        self.trace: TurnTrace | None = None
        """Records what is sent and received."""

    async def chunks(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run it."""
        reader, client, payload = self._new_reader(), self._client, self._payload
        body = await encode_sliced(payload.body) if self._is_large else msgspec.json.encode(payload.body)
        request = client.request("POST", self._path, body, headers=payload.headers)
        exchange = Exchange(client, request, first_byte=self._first_byte, chance=self._chance)
        trace = self.trace
        if trace is not None:
            trace.sent(client.url(self._path), request.data, request.pieces)
        del body, request  # they are not held while the model answers
        begun = False
        try:
            while not await exchange.opened():
                yield HEARTBEAT_BATCH
            if trace is not None:
                trace.opened(exchange.status, exchange.headers)
            sse = SseReader(self._max_event_bytes) if exchange.media_type == EVENT_STREAM else None
            while not reader.over:
                if sse is not None:
                    batch = await _next_chunks(exchange, sse, reader, trace)
                else:
                    body = await exchange.body()
                    if trace is not None and body is not None:
                        trace.received(body)
                    batch = HEARTBEAT_BATCH if body is None else reader.read_body(body)
                if not batch:
                    continue
                if not begun and batch is not HEARTBEAT_BATCH:
                    _raise_failure(batch)
                    begun = True
                yield batch
        finally:
            exchange.close(complete=reader.complete)


async def _next_chunks(
    exchange: Exchange, sse: SseReader, reader: Reader, trace: TurnTrace | None
) -> Sequence[Chunk]:
    """The next chunks of the stream; none after a heartbeat without any."""
    while True:
        if reader.finishing:
            exchange.shorten_wait(END_TIMEOUT_SECONDS)
        try:
            data = await exchange.read()
            if data == HEARTBEAT:
                return HEARTBEAT_BATCH
            if data is None:
                return reader.end(sse.finish())
            if trace is not None:
                trace.received(data)
            payloads = sse.feed(data)
        except BackendError as error:
            return reader.lost(error)
        except LineTooLong:
            return reader.lost(BackendBroken("The upstream sent an event beyond the size limit."))
        chunks = reader.feed(payloads)
        if payloads:
            exchange.progress(delivered=bool(chunks))
        if chunks:
            return chunks


def _raise_failure(batch: Sequence[Chunk]) -> None:
    """A turn that fails before its first content raises, so that it can be retried elsewhere."""
    last = batch[-1]
    if isinstance(last, Failed) and all(isinstance(chunk, UsageReported | Failed) for chunk in batch):
        raise last.error
