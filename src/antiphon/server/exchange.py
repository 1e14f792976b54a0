"""One request and its answer: reading the body within bounds, sending JSON, errors and streams."""

import asyncio
from dataclasses import dataclass
from typing import Literal

from antiphon.errors import (
    AntiphonError,
    BodyTimeout,
    BodyTooLarge,
    HeadersTooLarge,
    Unavailable,
    UnsupportedMedia,
)
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.server.error_shapes import OPENAI_ERRORS, Header
from antiphon.server.guard import Head
from antiphon.server.lifetime import ClientGone, Lifetimes
from antiphon.server.query import Query
from antiphon.server.types import Receive, Scope, Send

_JSON = (b"content-type", b"application/json")
_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

_LAST = (BodyTimeout, BodyTooLarge, HeadersTooLarge, Unavailable)
"""The rest of the body is not read, or we are going away: the connection cannot go on."""
MAX_DISCARDED = 512 * 1024 * 1024
DISCARD_SECONDS = 5.0


class Exchange:
    """What a route works with. Whose request it is, is known once the key was checked."""

    __slots__ = (
        "_query_string",
        "_send",
        "errors",
        "head",
        "method",
        "path",
        "phase",
        "profile",
        "receive",
        "request_id",
        "tenant",
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
        self._query_string: bytes = scope.get("query_string", b"")
        self.receive = receive
        self._send = send
        self.head = head
        self.request_id = request_id
        self.phase: Literal["asked", "streaming", "answered"] = "asked"
        self.profile = profile
        self.tenant = ""
        self.errors = OPENAI_ERRORS

    @property
    def started(self) -> bool:
        """Whether the head of the answer is out, and with it the status."""
        return self.phase != "asked"

    def query(self) -> Query:
        """The parameters behind the question mark."""
        return Query(self._query_string)

    async def body(self, limit: int) -> bytes:
        """The whole JSON body. Size is checked before and while it is read."""
        self._check_media()
        declared = self.head.content_length
        if declared and int(declared) > limit:
            raise _too_large(limit)
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > limit:
                raise _too_large(limit)
            if not message.get("more_body"):
                return b"".join(pieces)

    def _check_media(self) -> None:
        media = self.head.content_type.partition(b";")[0].strip().lower()
        if media and media != b"application/json" and not media.endswith(b"+json"):
            raise UnsupportedMedia
        if self.head.content_encoding not in (b"", b"identity"):
            raise UnsupportedMedia("Compressed request bodies are not taken; send plain JSON.")

    async def send_json(self, payload: bytes, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        """A whole answer."""
        await self._start_json(payload, status, headers)
        await self._send({"type": "http.response.body", "body": payload})

    async def _start_json(self, payload: bytes, status: int, headers: tuple[Header, ...]) -> None:
        self.phase = "answered"
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    _JSON,
                    (b"content-length", b"%d" % len(payload)),
                    (b"x-request-id", self.request_id.encode()),
                    *headers,
                ],
            }
        )

    async def send_error(self, error: AntiphonError, headers: tuple[Header, ...] = ()) -> None:
        """The error in the shape of its door, at its status."""
        headers = (*headers, *self.errors.headers(self.request_id))
        if error.retry_after is not None:
            headers = (*headers, (b"retry-after", b"%d" % max(1, round(error.retry_after))))
        if isinstance(error, _LAST):
            headers = (*headers, (b"connection", b"close"))
        if error.status == 426:
            headers = (*headers, (b"upgrade", b"websocket"), (b"connection", b"upgrade"))
        status, payload = self.errors.tell(error, self.profile, self.request_id)
        if isinstance(error, BodyTooLarge):
            await self._start_json(payload, status, headers)
            await self._send({"type": "http.response.body", "body": payload, "more_body": True})
            await self._discard_body()
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await self.send_json(payload, status, headers)

    async def _discard_body(self) -> None:
        """Let the client finish writing: closing before would reset the connection and lose the answer."""
        if int(self.head.content_length or 0) > MAX_DISCARDED:
            return
        size = 0
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                while size < MAX_DISCARDED:
                    message = await self.receive()
                    size += len(message.get("body", b""))
                    if not message.get("more_body"):
                        return
        except TimeoutError:
            pass

    async def start_stream(self, headers: tuple[Header, ...] = ()) -> None:
        """The head of a stream of events."""
        self.phase = "streaming"
        all_headers = [*_STREAM, (b"x-request-id", self.request_id.encode()), *headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": all_headers})

    async def send_events(self, payload: bytes) -> None:
        """Whole events, in one write."""
        await self._send({"type": "http.response.body", "body": payload, "more_body": True})

    async def end_stream(self, payload: bytes) -> None:
        """The last events."""
        self.phase = "answered"
        await self._send({"type": "http.response.body", "body": payload})


@dataclass(frozen=True, slots=True)
class Bodies:
    """Reads bodies within the bounds of size and time, for routes that answer at once."""

    lifetimes: Lifetimes
    max_body: int
    timeout: float

    async def read(self, exchange: Exchange) -> bytes:
        """The whole body."""
        with self.lifetimes.lease(exchange.receive) as lease:
            lease.expect_body(self.timeout)
            return await exchange.body(self.max_body)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is too large; at most {limit} bytes are taken.")
