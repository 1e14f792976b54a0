"""An upstream: where it is, how a request to it is written, and which of its answers can be read.

Nothing of our clients' requests is forwarded but what a dialect puts into the body: no headers, no cookies,
no proxies from the environment, no redirects, no compression.
"""

import math
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from antiphon.backends.connection import Answer, ConnectionFault, Disconnected, NotHttp, Pool
from antiphon.backends.redact import excerpt, redact
from antiphon.backends.registry import Endpoint
from antiphon.backends.watch import Watches
from antiphon.errors import BackendBroken, BackendError, BackendTimeout, BackendUnreachable, SettingsError

EVENT_STREAM = "text/event-stream"
JSON = "application/json"
MAX_ERROR_BYTES = 64 * 1024
AUTH_ERROR = "upstream_auth_error"
"""The code of a refusal of *our* credentials: another upstream may serve the turn, this one will not."""

Refuse = Callable[[Endpoint, int, Mapping[str, str], bytes], BackendError]
"""How a dialect reads an answer with an error status. The names of headers are in lower case."""


MAX_RETRY_AFTER = 86_400.0


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the upstream asks us to wait. A date counts from the answer's own date: no clock is asked."""
    text = headers.get("retry-after", "")
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return _sane(float(milliseconds) / 1000)
        if text.replace(".", "", 1).isdigit():
            return _sane(float(text))
        then, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return _sane((then - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _sane(seconds: float) -> float | None:
    """Within a day; what is no number says nothing."""
    return None if math.isnan(seconds) else min(max(0.0, seconds), MAX_RETRY_AFTER)


class Upstream:
    """An endpoint and the connections to it."""

    def __init__(self, endpoint: Endpoint, refuse: Refuse, *, headers: Mapping[str, str]) -> None:
        self.endpoint = endpoint
        self.watches = Watches(endpoint)
        self._refuse = refuse
        self._path, self.pool, host = _locate(endpoint)
        self._head = _write_headers(
            endpoint,
            {
                "host": host,
                "user-agent": "antiphon",
                "accept": "application/json, text/event-stream",
                "accept-encoding": "identity",
                **headers,
                **{name.lower(): value for name, value in endpoint.headers.items()},
            },
        )

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A whole request. A path with a slash in front is below the server's root, not the API's."""
        below = self._path.removesuffix("/v1") if path.startswith("/") else f"{self._path}/"
        line = f"{method} {below}{path} HTTP/1.1\r\n".encode()
        return b"%b%bcontent-length: %d\r\n\r\n%b" % (line, self._head, len(body), body)

    async def check(self, answer: Answer) -> None:
        """Raise for every answer that is not one."""
        name, status, media = self.endpoint.name, answer.status, media_type(answer)
        if status == 200 and media in (EVENT_STREAM, JSON) and "content-encoding" not in answer.headers:
            return
        if status >= 400:
            body = await _beginning(answer, MAX_ERROR_BYTES)
            raise self._refuse(self.endpoint, status, answer.headers, body)
        if status != 200:
            target = redact(answer.headers.get("location", ""), self.endpoint.secrets, 200)
            where = f" to '{target}', which is not followed: correct its base_url" if target else ""
            raise BackendBroken(f"The upstream '{name}' answered with status {status}{where}.")
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise BackendBroken(f"The upstream '{name}' compressed its answer although it was told not to.")
        if media not in (EVENT_STREAM, JSON):
            said = excerpt(await _beginning(answer, 4096), self.endpoint.secrets)
            raise BackendBroken(f"The upstream '{name}' answered with '{media}', which is no answer: {said}")

    def lost(self, fault: ConnectionFault) -> BackendError:
        """What it means that the connection failed us."""
        name = self.endpoint.name
        match fault:
            case Disconnected():
                return BackendUnreachable(f"The upstream '{name}' closed the connection before it answered.")
            case NotHttp():
                return BackendBroken(f"The upstream '{name}' does not speak HTTP: {redact(str(fault))}")
            case _:
                return BackendBroken(f"The upstream '{name}' broke off its answer.")

    def unreachable(self, error: Exception) -> BackendError:
        """What it means that there is no connection."""
        name = self.endpoint.name
        match error:
            case TimeoutError():
                return self.no_connection_in_time()
            case socket.gaierror():
                return BackendUnreachable(f"The host of the upstream '{name}' is not known.")
            case ssl.SSLError():
                return BackendBroken(f"The upstream '{name}' cannot be trusted: {redact(str(error))}")
            case OSError(errno=int(number)):
                return BackendUnreachable(f"The upstream '{name}' cannot be reached: {os.strerror(number)}.")
            case _:
                return BackendUnreachable(f"The upstream '{name}' cannot be reached.")

    def no_connection_in_time(self) -> BackendTimeout:
        """The deadline for connecting has passed; another try may do."""
        seconds = self.endpoint.deadlines.connect
        late = BackendTimeout(f"No connection to the upstream '{self.endpoint.name}' in {seconds:g} s.")
        late.retryable = True
        return late


def media_type(answer: Answer) -> str:
    """What the answer says that it is."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _beginning(answer: Answer, size: int) -> bytes:
    """At most so many bytes of a body; what came when waiting was no longer worth it."""
    body = b""
    try:
        while len(body) < size and (data := await answer.read()):
            body += data
    except ConnectionFault:
        pass  # half an error message is better than none
    return body[:size]


def _locate(endpoint: Endpoint) -> tuple[str, Pool, str]:
    """Path, connections and Host of the base URL."""
    try:
        url = urlsplit(endpoint.base_url)
        port = url.port or (443 if url.scheme == "https" else 80)
        host = (url.hostname or "").encode("idna").decode()
        path = url.path.rstrip("/").encode("ascii").decode()
    except (ValueError, UnicodeError) as error:
        raise SettingsError(f"The base_url of the upstream '{endpoint.name}' is wrong: {error}.") from None
    tls = ssl.create_default_context() if url.scheme == "https" else None
    shown = f"[{host}]" if ":" in host else host
    default = port == (443 if tls else 80)
    return path, Pool(host, port, tls), shown if default else f"{shown}:{port}"


def _write_headers(endpoint: Endpoint, headers: Mapping[str, str]) -> bytes:
    try:
        return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
    except UnicodeEncodeError:
        message = f"The api_key or a header of the upstream '{endpoint.name}' is not plain text."
        raise SettingsError(message) from None
