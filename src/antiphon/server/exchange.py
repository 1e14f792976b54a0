"""One request and its answer: read a body within limits; send JSON, errors, event streams or any media."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal

from antiphon.caller import ANONYMOUS
from antiphon.errors import (
    AntiphonError,
    BodyTimeout,
    BodyTooLarge,
    HeadersTooLarge,
    InvalidRequest,
    Overloaded,
    TooManyValues,
    Unavailable,
    UnsupportedMedia,
)
from antiphon.protocol.large_body import Body
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.server.admission import (
    CHEAP_BODY_BYTES,
    SMALL_BODY_BYTES,
    Admission,
    HeldBody,
    ReceivedBody,
    too_large,
)
from antiphon.server.error_shapes import OPENAI_ERRORS, Header, challenge
from antiphon.server.guard import TRACE_HEADER, Head
from antiphon.server.lifetime import ClientGone, Lease, Lifetimes
from antiphon.server.query import Query
from antiphon.server.types import Message, Receive, Scope, Send

_JSON = (b"content-type", b"application/json")
_EVENT_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)

_CLOSING_ERRORS = (BodyTimeout, BodyTooLarge, HeadersTooLarge, TooManyValues, Unavailable)
"""After these the connection is closed: the rest of the body is not read, or the server is stopping."""
_WITHIN_BODY = (BodyTooLarge, Overloaded, TooManyValues)
"""Before these are answered completely, the client may finish sending."""
COUNTED_BY = b"x-antiphon-count"
"""The header of a token count: `exact` if the model's tokenizer counted, else `estimate`."""
YIELDING_BYTES = 1024 * 1024
"""Between the steps of larger bodies other requests get their turn."""
MAX_DISCARDED_BYTES = 512 * 1024 * 1024
DISCARD_TIMEOUT_SECONDS = 5.0
DISCARD_PAUSE_SECONDS = 0.01
"""Between two reads of a large body that is discarded: a client that sends as fast as it can does not hold
the event loop."""


class Exchange:
    """A request and the answer to it. `caller` is known once the key was checked."""

    __slots__ = (
        "_has_body",
        "_headers",
        "_held",
        "_query_string",
        "_send",
        "address",
        "caller",
        "errors",
        "head",
        "method",
        "path",
        "phase",
        "profile",
        "receive",
        "request_id",
        "scheme",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        head: Head,
        request_id: str,
        profile: Profile = OPENAI,
    ) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.address: tuple[str, int] | None = scope.get("server")
        """Where this server was reached."""
        self.scheme: str = scope.get("scheme", "http")
        self._query_string: bytes = scope.get("query_string", b"")
        self._headers: Sequence[Header] = scope.get("headers", ())
        self.receive = receive
        self._send = send
        self.head = head
        self.request_id = request_id
        self.phase: Literal["received", "streaming", "answered"] = "received"
        self.profile = profile
        self.caller = ANONYMOUS
        self.errors = OPENAI_ERRORS
        self._has_body = True
        """Whether some of the body may still be unread."""
        self._held: HeldBody | None = None

    @property
    def started(self) -> bool:
        """Whether the status of the answer was sent."""
        return self.phase != "received"

    def query(self) -> Query:
        """The parameters of the query string."""
        return Query(self._query_string)

    @property
    def traced(self) -> bool:
        """Whether the client asks for a trace. Raises `InvalidRequest` for another value than `record`."""
        value = self.head.trace
        if value and value.lower() != b"record":
            name = TRACE_HEADER.decode()
            message = f"Invalid value for the header '{name}'; use 'record', or leave it out."
            raise InvalidRequest(message, param=name, code="invalid_value")
        return bool(value)

    def header_values(self, name: str) -> list[str]:
        """The values of a header that only one route reads, in their order."""
        wanted = name.encode()
        return [value.decode("latin-1") for sent, value in self._headers if sent == wanted]

    async def body(self, limit: int, admission: Admission) -> bytes:
        """The complete JSON body, when the request may start. Its size is checked before and while it is
        read."""
        body = await self.decodable_body(limit, admission, may_be_large=False)
        assert isinstance(body, bytes)
        return body

    async def decodable_body(self, limit: int, admission: Admission, *, may_be_large: bool = True) -> Body:
        """The same; the texts of a large one are decoded. It counts as held until `release_body`."""
        self._check_json()
        declared, piece, more = int(self.head.content_length or 0), b"", True
        small = min(limit, SMALL_BODY_BYTES)
        if declared <= small:
            piece, more = _piece(await self.receive())
            if not more and len(piece) <= small:
                self._has_body = False
                if len(piece) > CHEAP_BODY_BYTES and not admission.starts.start_now(self.caller.tenant):
                    await admission.starts.wait(self.caller.tenant)
                return piece
        tenant = self.caller.tenant
        held = self._held = HeldBody(admission.held, tenant)
        received = ReceivedBody(limit, admission.bodies, tenant, may_be_large=may_be_large, held=held)
        try:
            received.expect(declared)
            received.add(piece)
            while more:
                piece, more = _piece(await self.receive())
                received.add(piece)
            self._has_body = False
            if not admission.starts.start_now(self.caller.tenant):
                await admission.starts.wait(self.caller.tenant)
        finally:
            received.release()
        if received.size > YIELDING_BYTES:
            await asyncio.sleep(0)
            return await received.large()
        return received.joined()

    def release_body(self) -> None:
        """The request is answered, or refused: its body is no longer held."""
        if self._held is not None:
            self._held.release()
            self._held = None

    async def stream_body(
        self, limit: int, seconds: float, min_bytes_per_second: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The body of any media type, piece by piece as it arrives; nothing is buffered.

        Raises `BodyTooLarge` beyond `limit` bytes, and `BodyTimeout` if it still has to wait for the client
        after so many seconds. With a minimum rate, what has arrived extends this time.
        """
        self._check_encoding()
        self._check_length(limit)
        deadline = asyncio.get_running_loop().time() + seconds
        size, more = 0, True
        while more:
            extension = 0.0 if min_bytes_per_second is None else size / min_bytes_per_second
            try:
                async with asyncio.timeout_at(deadline + extension):
                    piece, more = _piece(await self.receive())
            except TimeoutError:
                raise BodyTimeout from None
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            if piece:
                yield piece
        self._has_body = False

    def _check_length(self, limit: int) -> None:
        if int(self.head.content_length or 0) > limit:
            raise too_large(limit)

    def _check_json(self) -> None:
        media = self.head.content_type
        if media != b"application/json":
            media = media.partition(b";")[0].strip().lower()
        if media and media != b"application/json" and not media.endswith(b"+json"):
            raise UnsupportedMedia
        self._check_encoding()

    def _check_encoding(self) -> None:
        if self.head.content_encoding not in (b"", b"identity"):
            raise UnsupportedMedia("Compressed request bodies are not supported; send the body uncompressed.")

    async def send_json(self, payload: bytes, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        """A complete JSON answer."""
        self.phase = "answered"
        await self._start(status, (_JSON, (b"content-length", b"%d" % len(payload)), *headers))
        await self._send({"type": "http.response.body", "body": payload})

    async def send_media(
        self,
        body: bytes | AsyncIterable[bytes],
        media_type: str,
        status: int = 200,
        headers: tuple[Header, ...] = (),
        *,
        length: int | None = None,
    ) -> None:
        """A complete answer of any media type. `length` is the size of an iterated body, where it is known.

        If the iteration breaks off, the connection is closed, so that the client does not take the part for
        the whole.
        """
        if isinstance(body, bytes):
            length = len(body)
        sized = () if length is None else ((b"content-length", b"%d" % length),)
        self.phase = "answered"
        await self._start(status, ((b"content-type", media_type.encode()), *sized, *headers))
        if not isinstance(body, bytes):
            async for piece in body:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        last = body if isinstance(body, bytes) else b""
        await self._send({"type": "http.response.body", "body": last})

    async def send_error(self, error: AntiphonError, headers: tuple[Header, ...] = ()) -> None:
        """The error with its status, in the error shape of the route."""
        headers = (*headers, *self.errors.headers(self.request_id))
        if error.retry_after is not None:
            headers = (*headers, (b"retry-after", b"%d" % max(1, round(error.retry_after))))
        if isinstance(error, _CLOSING_ERRORS):
            headers = (*headers, (b"connection", b"close"))
        if error.status == 426:
            headers = (*headers, (b"upgrade", b"websocket"), (b"connection", b"upgrade"))
        status, payload = self.errors.render(error, self.profile, self.request_id)
        headers = (*headers, *challenge(status))
        if isinstance(error, _WITHIN_BODY) and self._has_body:
            self.phase = "answered"
            await self._start(status, (_JSON, (b"content-length", b"%d" % len(payload)), *headers))
            await self._send({"type": "http.response.body", "body": payload, "more_body": True})
            await self._discard_body()
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await self.send_json(payload, status, headers)

    async def _discard_body(self) -> None:
        """Let the client finish sending: closing earlier would reset the connection and lose the answer."""
        if int(self.head.content_length or 0) > MAX_DISCARDED_BYTES:
            return
        size = 0
        try:
            async with asyncio.timeout(DISCARD_TIMEOUT_SECONDS):
                while size < MAX_DISCARDED_BYTES:
                    message = await self.receive()
                    size += len(message.get("body", b""))
                    if not message.get("more_body"):
                        return
                    if size > YIELDING_BYTES:
                        await asyncio.sleep(DISCARD_PAUSE_SECONDS)
        except TimeoutError:
            pass

    async def start_stream(self, headers: tuple[Header, ...] = ()) -> None:
        """Begin a stream of events. The head leaves with the first events, be they empty."""
        self.phase = "streaming"
        await self._start(200, (*_EVENT_STREAM, *headers))

    def send_events(self, payload: bytes) -> Awaitable[None]:
        """Complete events, in one write."""
        return self._send({"type": "http.response.body", "body": payload, "more_body": True})

    async def end_stream(self, payload: bytes) -> None:
        """The last events."""
        self.phase = "answered"
        await self._send({"type": "http.response.body", "body": payload})

    def _start(self, status: int, headers: tuple[Header, ...]) -> Awaitable[None]:
        """Send the head of the answer."""
        identified = [*headers, (b"x-request-id", self.request_id.encode())]
        return self._send({"type": "http.response.start", "status": status, "headers": identified})


def _piece(message: Message) -> tuple[bytes, bool]:
    """A piece of a body, and whether more follows."""
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Reads JSON bodies within the server's limits of size and time."""

    lifetimes: Lifetimes
    max_bytes: int
    timeout_seconds: float
    admission: Admission

    async def read(self, exchange: Exchange) -> bytes:
        """The complete body, for routes that answer at once."""
        with self.lifetimes.lease(exchange.receive) as lease:
            return await self.read_within(exchange, lease)

    def read_within(self, exchange: Exchange, lease: Lease) -> Awaitable[bytes]:
        """The complete body, for routes that work on: then they call `lease.expect_disconnect`."""
        self._expect(exchange, lease)
        return exchange.body(self.max_bytes, self.admission)

    def read_decodable(self, exchange: Exchange, lease: Lease) -> Awaitable[Body]:
        """The same; the texts of a large body are decoded."""
        self._expect(exchange, lease)
        return exchange.decodable_body(self.max_bytes, self.admission)

    def _expect(self, exchange: Exchange, lease: Lease) -> None:
        self.admission.check(exchange.caller.tenant)
        lease.expect_body(self.timeout_seconds)
