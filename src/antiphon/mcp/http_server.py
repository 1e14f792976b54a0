"""`HttpServer`: requests to one MCP server over HTTP: its headers, redirects, limits and errors."""

import re
from collections.abc import Mapping
from urllib.parse import quote, urljoin, urlsplit

from antiphon.errors import BackendError, BackendRefused, InvalidRequest, McpHttpError, McpProtocolError
from antiphon.http.client import EVENT_STREAM, JSON, Accept, HttpClient, retry_after
from antiphon.http.connection import IncomingResponse
from antiphon.http.egress import ALLOW_CONFIGURED, EgressPolicy
from antiphon.http.exchange import Exchange
from antiphon.http.redact import excerpt, redact
from antiphon.http.target import Deadlines, Target
from antiphon.mcp.messages import INVALID_RESULT
from antiphon.mcp.port import RemoteServer
from antiphon.mcp.transport import MAX_ANSWER_BYTES

MAX_URL_CHARS = 8192
MAX_REDIRECTS = 3
CONNECT_TIMEOUT_SECONDS = 10.0
NO_DEADLINE_SECONDS = 24 * 3600.0
"""Sessions have the deadlines of their requests."""
MIN_SECRET_CHARACTERS = 6

_REDIRECTS = frozenset({307, 308})
"""Those that keep the method."""
_NO_CONTENT = frozenset({202, 204})
_URL = re.compile(r"https?://[^\s/@?#]+(?:[/?][^\s#]*)?")
_SAFE = "/:?[]@!$&'()*+,;=%-._~"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding", "te", "upgrade", "expect",
     "accept", "accept-encoding", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"}
)  # fmt: skip
"""Headers that a request must not set: HTTP and the protocol need them."""


class _Accepted(Accept):
    """Messages of these media types, redirects, and answers without content."""

    def includes(self, response: IncomingResponse) -> bool:
        return response.status in _REDIRECTS | _NO_CONTENT or super().includes(response)


class _AnySuccess(Accept):
    """Whatever says that a message has arrived. Servers demand that both media types are accepted."""

    def includes(self, response: IncomingResponse) -> bool:
        return 200 <= response.status < 300 or response.status in _REDIRECTS


MESSAGES = _Accepted((200,), (JSON, EVENT_STREAM))
EVENTS = _Accepted((200,), (EVENT_STREAM,))
ANY_SUCCESS = _AnySuccess((200,), (JSON, EVENT_STREAM))


class HttpRefusal(BackendRefused):
    """An answer with an error status, and its body: it may be a reply."""

    def __init__(self, message: str, *, status: int, body: bytes, wait: float | None) -> None:
        super().__init__(message, status=status, retry_after=wait)
        self.body = body


class HttpServer:
    """The server, and the connections to it."""

    def __init__(self, server: RemoteServer, egress: EgressPolicy) -> None:
        """Raises `InvalidRequest` for an address that is none."""
        check_address(server)
        self.label = server.label
        self._url = server.url
        parts = urlsplit(server.url)
        self.secrets = secrets_of(server)
        target = Target(
            name=server.label,
            noun="MCP server",
            base_url=f"{parts.scheme}://{parts.netloc}",
            headers={"content-type": JSON, **server.headers},
            secrets=self.secrets,
            deadlines=Deadlines(
                connect=CONNECT_TIMEOUT_SECONDS,
                first_byte=NO_DEADLINE_SECONDS,
                between=NO_DEADLINE_SECONDS,
                answer=NO_DEADLINE_SECONDS,
                total=NO_DEADLINE_SECONDS,
            ),
            retries=0,
            max_body_bytes=MAX_ANSWER_BYTES,
        )
        self._client = HttpClient(
            target, self._refuse, egress=ALLOW_CONFIGURED if server.configured else egress
        )
        self.path = _path_of(server.url)

    async def open(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str],
        accept: Accept = MESSAGES,
        resend: bool = True,
    ) -> Exchange:
        """Send a request and wait for the head of the response, after redirects. Raises `BackendError`, or
        `McpError`. The caller closes the exchange."""
        for _ in range(MAX_REDIRECTS + 1):
            request = self._client.request(method, path, body, headers=headers, accept=accept, resend=resend)
            exchange = Exchange(self._client, request, first_byte=NO_DEADLINE_SECONDS)
            opened = False
            try:
                while not await exchange.opened():
                    pass
                opened = exchange.status not in _REDIRECTS
            finally:
                if not opened:
                    exchange.close(complete=False)
            if opened:
                return exchange
            path = self.path_at(exchange.headers.get("location", ""), exchange.status)
        message = f"The MCP server '{self.label}' redirects more than {MAX_REDIRECTS} times."
        raise McpHttpError(message, 508)

    def path_at(self, location: str, status: int) -> str:
        """The path of a URL that the server names, which must be on the same host. Raises `McpHttpError`:
        another host would get the credentials of this one."""
        url = urljoin(self._url, location)
        here, there = urlsplit(self._url), urlsplit(url)
        if not _URL.fullmatch(url) or (there.scheme, there.netloc) != (here.scheme, here.netloc):
            shown = redact(location, self.secrets, 200)
            message = (
                f"The MCP server '{self.label}' refers to '{shown}', which is not followed: it is another "
                "host. If it is the intended one, use it as the address of the server."
            )
            raise McpHttpError(message, status)
        return _path_of(url)

    async def body(self, exchange: Exchange) -> bytes:
        """The complete body of a response."""
        while (body := await exchange.body()) is None:
            pass
        return body

    def failure(self, error: BackendError) -> McpHttpError:
        """The error of a request that failed below the protocol."""
        failure = McpHttpError(error.message, error.status)
        failure.answered = isinstance(error, HttpRefusal)
        return failure

    def too_large(self) -> McpProtocolError:
        """The error of an answer beyond the limit."""
        message = f"The MCP server '{self.label}' sent more than {MAX_ANSWER_BYTES} bytes."
        return McpProtocolError(message, INVALID_RESULT)

    def _refuse(self, status: int, headers: Mapping[str, str], body: bytes) -> BackendError:
        text = excerpt(body, self.secrets)
        message = f"The MCP server '{self.label}' answered with status {status}{f': {text}' if text else '.'}"
        return HttpRefusal(message, status=status, body=body, wait=retry_after(headers))

    def close(self) -> None:
        """Abort all connections."""
        self._client.close()


def check_address(
    server: RemoteServer, url_param: str = "server_url", headers_param: str = "headers"
) -> None:
    """Raise `InvalidRequest` for a URL or a header that cannot be used."""
    if not _URL.fullmatch(server.url) or len(server.url) > MAX_URL_CHARS:
        message = (
            f"The address of the MCP server '{server.label}' must begin with 'https://' or 'http://', have "
            f"no user, password, fragment or white space, and at most {MAX_URL_CHARS} characters."
        )
        raise InvalidRequest(message, param=url_param)
    for name, value in server.headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS:
            message = f"The header '{redact(name, limit=100)}' cannot be set for an MCP server."
            raise InvalidRequest(message, param=headers_param)
        if not (value.isascii() and value.isprintable()):
            message = f"The header '{name}' must be printable ASCII."
            raise InvalidRequest(message, param=headers_param)


def secrets_of(server: RemoteServer) -> tuple[str, ...]:
    """Texts that must not appear in an error, a log or an output: credentials in headers and the query."""
    words = [value.split()[-1] for value in server.headers.values() if value.strip()]
    words += [pair.partition("=")[2] for pair in urlsplit(server.url).query.split("&")]
    return tuple(word for word in words if len(word) >= MIN_SECRET_CHARACTERS)


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    return quote(parts.path or "/", safe=_SAFE) + query
