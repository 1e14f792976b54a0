"""`HttpClient`: writes requests to one target and decides which of its responses can be read.

A request carries the headers of its target and nothing else: no cookies, no proxies from the environment, no
redirects, no compression.
"""

import errno
import math
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime

from msgspec import Struct

from antiphon.errors import (
    BackendBroken,
    BackendError,
    BackendRefused,
    BackendTimeout,
    BackendUnreachable,
    SettingsError,
)
from antiphon.http.connection import ConnectionFault, Disconnected, IncomingResponse, NotHttp, Pool
from antiphon.http.deadlines import DeadlineTimer
from antiphon.http.egress import ALLOW_CONFIGURED, EgressPolicy
from antiphon.http.redact import excerpt, redact
from antiphon.http.target import Target, locate

EVENT_STREAM = "text/event-stream"
JSON = "application/json"
MAX_ERROR_BYTES = 64 * 1024
MAX_EXCERPT_BYTES = 4096
MAX_RETRY_AFTER_SECONDS = 86_400.0
AUTH_ERROR = "upstream_auth_error"
"""The error code for rejected credentials of Antiphon. Another upstream may serve the request, this one will
not."""

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""Errors of connections that are due to this machine, whose load requests can cause."""

Refuse = Callable[[int, Mapping[str, str], bytes], BackendError]
"""Makes the error for a response with an error status: status, headers (names in lower case), body."""


class Accept:
    """The statuses and media types of responses that can be read. Without media types, any will do."""

    __slots__ = ("header", "media_types", "statuses")

    def __init__(self, statuses: Iterable[int] = (200,), media_types: tuple[str, ...] = ()) -> None:
        self.statuses = frozenset(statuses)
        self.media_types = frozenset(media_types)
        self.header = f"accept: {', '.join(media_types) or '*/*'}\r\n".encode("ascii")

    def includes(self, response: IncomingResponse) -> bool:
        return (
            response.status in self.statuses
            and (not self.media_types or response.media_type in self.media_types)
            and response.headers.get("content-encoding", "identity") == "identity"
        )


JSON_OR_EVENTS = Accept((200,), (JSON, EVENT_STREAM))


LARGE_BODY_BYTES = 1024 * 1024


class HttpRequest(Struct, frozen=True):
    """A request, ready to be sent, and which responses to it can be read."""

    data: bytes
    accept: Accept = JSON_OR_EVENTS
    bodiless: bool = False
    """Whether the response has no body: the method is HEAD."""
    pieces: Sequence[bytes] = ()
    """Sent after `data`, without a copy: those of a large body."""
    resend: bool = True
    """Whether it may be sent again if the server closes an idle connection just as it is used. Not if it has
    side effects: the server may have received it."""


class HttpClient:
    """A target and the connections to it."""

    def __init__(
        self, target: Target, refuse: Refuse | None = None, *, egress: EgressPolicy = ALLOW_CONFIGURED
    ) -> None:
        self.target = target
        self.timer = DeadlineTimer(target.heartbeat, target.deadlines)
        self._refuse = refuse or self._refused
        location = locate(target)
        self.pool = Pool(location.host, location.port, location.tls, egress)
        self._path = location.path
        self._last_line: tuple[str, str, Accept] | None = None
        """The method and the path of the last request, and what it accepts: most are the same."""
        self._last_head = b""
        self._head = _write_headers(
            target,
            {
                "host": location.host_header,
                "user-agent": "antiphon",
                "accept-encoding": "identity",
                **{name.lower(): value for name, value in target.headers.items()},
            },
        )

    def request(
        self,
        method: str,
        path: str,
        body: bytes | Sequence[bytes] = b"",
        *,
        headers: Mapping[str, str] | None = None,
        accept: Accept = JSON_OR_EVENTS,
        resend: bool = True,
    ) -> HttpRequest:
        """Write a request; a large body may come in pieces. A path that begins with a slash is below the
        server's root, not the base URL."""
        head = self._last_head
        if headers or self._last_line != (method, path, accept):
            more = _write_headers(self.target, headers) if headers else b""
            head = b"%b%b%b%bcontent-length: " % (self._line(method, path), self._head, accept.header, more)
            if not headers:
                self._last_line, self._last_head = (method, path, accept), head
        size, pieces = len(body), ()
        if not isinstance(body, bytes):
            size, pieces, body = sum(map(len, body)), body, b""
        elif size > LARGE_BODY_BYTES:
            pieces, body = (body,), b""
        data = b"%b%d\r\n\r\n%b" % (head, size, body)
        return HttpRequest(data, accept, method == "HEAD", pieces, resend)

    def url(self, path: str) -> str:
        """The URL of a request with this path, for display."""
        below = self._path.removesuffix("/v1") if path.startswith("/") else f"{self._path}/"
        return f"{self.target.base_url.rstrip('/').removesuffix(self._path)}{below}{path}"

    def _line(self, method: str, path: str) -> bytes:
        below = self._path.removesuffix("/v1") if path.startswith("/") else f"{self._path}/"
        return f"{method} {below}{path} HTTP/1.1\r\n".encode()

    async def unreadable(self, response: IncomingResponse, accept: Accept) -> BackendError:
        """Why this response, which is not accepted, cannot be read: its status, media type or encoding."""
        name, status = self.target.described, response.status
        if status not in accept.statuses:
            if status >= 400:
                body = await _beginning(response, MAX_ERROR_BYTES)
                return self._refuse(status, response.headers, body)
            location = redact(response.headers.get("location", ""), self.target.secrets, 200)
            where = f" to '{location}', which is not followed: correct its base_url" if location else ""
            return BackendBroken(f"The {name} answered with status {status}{where}.")
        if response.headers.get("content-encoding", "identity") != "identity":
            return BackendBroken(f"The {name} compressed its answer although the request forbade it.")
        text = excerpt(await _beginning(response, MAX_EXCERPT_BYTES), self.target.secrets)
        media = response.media_type
        return BackendBroken(f"The {name} answered with '{media}', which cannot be read: {text}")

    def _refused(self, status: int, headers: Mapping[str, str], body: bytes) -> BackendError:
        text = excerpt(body, self.target.secrets)
        message = f"The {self.target.described} answered with status {status}{f': {text}' if text else '.'}"
        return BackendRefused(message, status=status, retry_after=retry_after(headers))

    def connection_error(self, fault: ConnectionFault) -> BackendError:
        """The error for a connection that failed after the request was sent."""
        name = self.target.described
        match fault:
            case Disconnected():
                return BackendUnreachable(f"The {name} closed the connection before it answered.")
            case NotHttp():
                return BackendBroken(f"The {name} does not speak HTTP: {redact(str(fault))}")
            case _:
                return BackendBroken(f"The {name} broke off its answer.")

    def connect_error(self, error: Exception) -> BackendError:
        """The error for a connection that could not be opened."""
        found = self._connect_error(error)
        found.unsent = not (isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES)
        return found

    def _connect_error(self, error: Exception) -> BackendError:
        name = self.target.described
        match error:
            case TimeoutError():
                return self.connect_timeout()
            case socket.gaierror():
                return BackendUnreachable(f"The host of the {name} is not known.")
            case ssl.SSLError():
                return BackendBroken(f"The {name} cannot be trusted: {redact(str(error))}")
            case OSError(errno=int(number)):
                return BackendUnreachable(f"The {name} cannot be reached: {os.strerror(number)}.")
            case _:
                return BackendUnreachable(f"The {name} cannot be reached.")

    def connect_timeout(self) -> BackendTimeout:
        """The error for a connection that took too long to open. Unlike other timeouts it may be retried."""
        seconds = self.target.deadlines.connect
        error = BackendTimeout(f"No connection to the {self.target.described} in {seconds:g} s.")
        error.retryable = error.unsent = True
        return error

    def close(self) -> None:
        """Abort all connections."""
        self.pool.close()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait. A date is compared with the response's own date."""
    text = headers.get("retry-after", "")
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return _bounded(float(milliseconds) / 1000)
        if text.replace(".", "", 1).isdigit():
            return _bounded(float(text))
        then, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return _bounded((then - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _bounded(seconds: float) -> float | None:
    return None if math.isnan(seconds) else min(max(0.0, seconds), MAX_RETRY_AFTER_SECONDS)


async def _beginning(response: IncomingResponse, size: int) -> bytes:
    """At most `size` bytes of a body; fewer if it ends, breaks off or takes too long."""
    body = b""
    try:
        while len(body) < size and (data := await response.read()):
            body += data
    except ConnectionFault:
        pass  # half an error message is better than none
    return body[:size]


def _write_headers(target: Target, headers: Mapping[str, str]) -> bytes:
    try:
        return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
    except UnicodeEncodeError:
        message = f"The api_key or a header of the {target.described} is not plain text. Correct it."
        raise SettingsError(message) from None
