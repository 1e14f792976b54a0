"""The server under test, over HTTP: any method, any body, one connection per request."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from antiphon.conformance.reading import Frame, count_frames, read_frames
from antiphon.conformance.results import Failed
from antiphon.errors import SettingsError
from antiphon.http.connection import ConnectionFault, IncomingResponse, NotHttp, Pool
from antiphon.protocol.content import JsonObject

MAX_BODY_BYTES = 64 * 1024 * 1024


class Unanswered(Failed):
    """No answer, or one that cannot be read."""


class Unreachable(Unanswered):
    """The connection failed."""


class Answer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """The media type of the content-type header."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def json(self) -> JsonObject:
        """The JSON object of the body, or an empty one."""
        try:
            return msgspec.json.decode(self.body, type=JsonObject)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}

    @property
    def frames(self) -> list[Frame]:
        """The body as server-sent events."""
        return read_frames(self.body)

    @property
    def events(self) -> list[JsonObject]:
        """The events of a stream; frames that are not JSON objects are left out."""
        return [event for frame in self.frames if (event := frame.event()) is not None]


class Target:
    """The address of the server and its default headers. Counts the requests."""

    def __init__(
        self, base_url: str, *, model: str = "", api_key: str | None = None, timeout: float = 60
    ) -> None:
        self.base_url = _with_path(base_url)
        self.model = model
        self.timeout = timeout
        self.requests = 0
        self.unanswered = 0
        """Requests in a row that had no answer in time."""
        self._key = api_key
        self._host, self._path, self._pool, self.socket_url = _locate(self.base_url)

    @property
    def has_key(self) -> bool:
        return self._key is not None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not be shown."""
        return (self._key,) if self._key else ()

    @property
    def authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._key}"} if self._key else {}

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        frames: int | None = None,
    ) -> Answer:
        """Send one request. With `frames`, close the connection after that many frames of the stream."""
        self.requests += 1
        request = self._write(method, path, body, headers or {})
        try:
            async with asyncio.timeout(self.timeout):
                connection = await self._pool.connect()
                arriving = connection.send(request)
                try:
                    answer = await _receive(arriving, frames)
                finally:
                    arriving.close()
        except TimeoutError:
            self.unanswered += 1
            raise Unanswered(f"no complete answer to {method} {path} within {self.timeout:g} s") from None
        except ConnectionFault as fault:
            raise Unanswered(f"{method} {path}: {_describe_fault(fault)}") from None
        except OSError as error:
            self.unanswered += 1
            raise Unreachable(f"{self.base_url} cannot be reached: {_describe_error(error)}") from None
        self.unanswered = 0
        return answer

    def close(self) -> None:
        self._pool.close()

    def _write(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        fields = {
            "host": self._host,
            "user-agent": "antiphon-conformance",
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",
            "connection": "close",
            **({"content-type": "application/json"} if body else {}),
            **self.authorization,
            **headers,
            "content-length": str(len(body)),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"{method} {self._path}/{path} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + body


async def _receive(arriving: IncomingResponse, frames: int | None) -> Answer:
    await arriving.head()
    pieces = bytearray()
    while (data := await arriving.read()) is not None:
        pieces += data
        if len(pieces) > MAX_BODY_BYTES:
            raise NotHttp(f"the answer is longer than {MAX_BODY_BYTES // 2**20} MB")
        if frames is not None and count_frames(bytes(pieces)) >= frames:
            break
    return Answer(arriving.status, arriving.headers, bytes(pieces))


def _with_path(base_url: str) -> str:
    """`/v1` is added to an address without a path."""
    base = base_url.rstrip("/")
    return f"{base}/v1" if "://" in base and not urlsplit(base).path else base


def _locate(base_url: str) -> tuple[str, str, Pool, str]:
    """Host, path, connections, and the URL of the WebSocket."""
    try:
        url = urlsplit(base_url)
        port = url.port or (443 if url.scheme == "https" else 80)
        host = (url.hostname or "").encode("idna").decode()
        path = url.path.rstrip("/").encode("ascii").decode()
    except (ValueError, UnicodeError) as error:
        raise SettingsError(f"--base-url is not a valid URL: {error}.") from None
    if url.scheme not in ("http", "https") or not host:
        raise SettingsError("--base-url must begin with http:// or https:// and name a host.")
    tls = ssl.create_default_context() if url.scheme == "https" else None
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port == (443 if tls else 80) else f"{shown}:{port}"
    return netloc, path, Pool(host, port, tls), f"{'wss' if tls else 'ws'}://{netloc}{path}/responses"


def _describe_fault(fault: ConnectionFault) -> str:
    return str(fault) if isinstance(fault, NotHttp) else "the server closed the connection"


def _describe_error(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "its host is unknown"
    return error.strerror or str(error) or type(error).__name__
