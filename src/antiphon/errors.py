"""Every error that Antiphon raises, in one tree.

    AntiphonError
    ├── RequestError            caused by the request: 4xx, never retried
    │   ├── InvalidRequest      400  malformed, contradictory or out of range
    │   │   ├── Unsupported     400  well-formed, but not supported by this model or server
    │   │   └── TooManyValues   400  a body with more values than are accepted
    │   ├── Unauthorized        401  the key is unknown, malformed, revoked or expired
    │   │   └── MissingKey      401  no key was sent
    │   ├── Forbidden           403  the key is valid, but lacks the scope
    │   ├── NotFound            404  a response, an item or a route
    │   │   └── ModelNotFound   404
    │   ├── MethodNotAllowed    405
    │   ├── BodyTimeout         408  the body did not arrive in time
    │   ├── BodyTooLarge        413
    │   ├── UnsupportedMedia    415
    │   ├── RangeNotSatisfiable 416
    │   ├── UpgradeRequired     426  a broken handshake, or WebSockets are disabled
    │   ├── TooManyRequests     429  too many concurrent requests of one client
    │   └── HeadersTooLarge     431
    ├── UnsupportedHttpVersion  505
    ├── Unavailable             503  the server is draining or not ready; try again
    │   ├── StoreUnavailable    503  the database cannot be reached
    │   └── Overloaded          503  the server has too much to do, or too little memory
    ├── StoreFull               507  the database has no room left
    ├── BackendError            the upstream failed: 5xx, or the status of its answer
    │   ├── BackendRefused      the upstream answered with an error
    │   │   └── ResponsesCallFailed   a Responses server refused a call of the orchestrator
    │   ├── BackendUnreachable  502  no connection
    │   ├── BackendTimeout      504  a deadline passed
    │   ├── BackendBusy         429  a configured limit is reached; no request was sent
    │   ├── BackendPaused       503  paused after repeated failures; no request was sent
    │   ├── EmbeddingUnavailable 503 the embedding model of a vector store cannot be used
    │   └── BackendBroken       502  the answer of the upstream is not valid
    ├── McpError                424  a server of tools failed
    │   ├── McpProtocolError    it answered with an error, or not as the protocol demands
    │   └── McpHttpError        it cannot be reached, took too long, or answered with an HTTP error
    └── SettingsError           the configuration is invalid; raised at the start, not by requests

The wire form is OpenAI's error object, ``{"message", "type", "param", "code"}``; only `to_wire` makes it. The
docstring of a class is its default message.
"""

from typing import ClassVar


def drop_tracebacks(error: BaseException) -> None:
    """Free the frames that an error was raised through, with the request that they hold.

    The frames refer to the error, so without this they would stay until the garbage collector finds them.
    """
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__cause__ or found.__context__


class AntiphonError(Exception):
    """Internal error; see the server log."""

    status: int = 500
    kind: ClassVar[str] = "server_error"
    code: str | None = None
    param: str | None = None
    retry_after: float | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        if param is not None:
            self.param = param
        if code is not None:
            self.code = code
        super().__init__(self.message)

    def to_wire(self) -> dict[str, str | None]:
        """The members of OpenAI's error object."""
        return {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}


class RequestError(AntiphonError):
    """The request cannot be served."""

    status = 400
    kind = "invalid_request_error"


class InvalidRequest(RequestError):
    """The request is malformed."""

    code = "invalid_value"


class Conflict(RequestError):
    """The state of the server does not allow this now."""

    status = 409
    code = "conflict"


class Unsupported(InvalidRequest):
    """This feature is not supported here."""

    code = "unsupported_value"


class TooManyValues(InvalidRequest):
    """The request body holds too many values."""

    code = "too_many_values"


class Unauthorized(RequestError):
    """Incorrect API key. Send a valid key as `Authorization: Bearer KEY` or `x-api-key: KEY`."""

    status = 401
    code = "invalid_api_key"


class MissingKey(Unauthorized):
    """This server needs an API key. Send one as `Authorization: Bearer KEY` or `x-api-key: KEY`."""

    code = "missing_api_key"


class Forbidden(RequestError):
    """This API key lacks the required scope."""

    status = 403
    code = "insufficient_scope"


class NotFound(RequestError):
    """Not found."""

    status = 404
    code = "not_found"


class PreviousResponseNotFound(NotFound):
    """The response that a request continues does not exist."""

    status = 400
    code = "previous_response_not_found"
    param = "previous_response_id"


class ModelNotFound(NotFound):
    """The requested model does not exist."""

    code = "model_not_found"
    param = "model"


class MethodNotAllowed(RequestError):
    """This path does not support the method."""

    status = 405
    code = "method_not_allowed"


class BodyTimeout(RequestError):
    """The request body did not arrive in time."""

    status = 408
    code = "request_timeout"


class BodyTooLarge(RequestError):
    """The request body is too large."""

    status = 413
    code = "request_too_large"


class RangeNotSatisfiable(RequestError):
    """The requested range is not within the content."""

    status = 416
    code = "range_not_satisfiable"


class UnsupportedMedia(RequestError):
    """The request body must be JSON: send `Content-Type: application/json`."""

    status = 415
    code = "unsupported_media_type"


class UpgradeRequired(RequestError):
    """WebSocket is not available here. Use `POST /v1/responses`."""

    status = 426
    code = "websocket_unavailable"


class TooManyRequests(RequestError):
    """Too many concurrent requests. Send the next one when a response has ended."""

    status = 429
    kind = "rate_limit_error"
    code = "rate_limit_exceeded"


class HeadersTooLarge(RequestError):
    """The request headers are too large."""

    status = 431
    code = "headers_too_large"


class UnsupportedHttpVersion(AntiphonError):
    """This server speaks HTTP/1.1."""

    status = 505
    kind = "invalid_request_error"
    code = "unsupported_http_version"


class Unavailable(AntiphonError):
    """The server is shutting down. Try again in a moment."""

    status = 503
    code = "server_unavailable"
    retry_after = 1.0


class StoreUnavailable(Unavailable):
    """The database cannot be reached right now. Try again in a moment."""

    code = "store_unavailable"


class Overloaded(Unavailable):
    """The server is overloaded. Try again in a moment."""

    code = "server_overloaded"
    retry_after = 2.0


class StoreFull(AntiphonError):
    """The database is full. Nothing can be stored until the operator frees space."""

    status = 507
    code = "store_full"


class BackendError(AntiphonError):
    """The model's server failed."""

    status = 502
    code = "upstream_error"
    retryable: bool = False
    """Whether the same turn may succeed when it is retried, with this or another backend."""
    unsent: bool = False
    """Whether it occurred before the request was sent, so that the request cannot have caused it."""


class BackendRefused(BackendError):
    """The model's server rejected the request."""

    is_web_page: bool = False
    """Whether the answer was a page for people: it probably is not a model's server."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, param=param)
        self.status = status
        self.retry_after = retry_after
        self.retryable = status in (408, 409, 425, 429) or status >= 500

    def to_wire(self) -> dict[str, str | None]:
        wire = super().to_wire()
        if self.status == 429:
            wire["type"] = "rate_limit_error"
        elif self.status < 500:
            wire["type"] = "invalid_request_error"
        return wire


APPROVAL_ANSWERED = "approval_already_answered"
"""The code of an answer to an approval request that another response has answered."""


class ResponsesCallFailed(BackendRefused):
    """A call of a Responses server failed."""

    def __init__(self, message: str, *, status: int, body: bytes = b"", code: str | None = None) -> None:
        super().__init__(message, status=status, code=code)
        self.body = body


class BackendUnreachable(BackendError):
    """The model's server cannot be reached."""

    code = "upstream_unreachable"
    retryable = True


class BackendTimeout(BackendError):
    """The model's server did not answer in time."""

    status = 504
    code = "upstream_timeout"


class BackendBusy(BackendError):
    """The model is at its configured limit. Try again later."""

    status = 429
    kind = "rate_limit_error"
    code = "rate_limit_exceeded"
    retryable = True

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BackendPaused(BackendError):
    """The model's server is paused after repeated failures."""

    status = 503
    code = "upstream_paused"
    retryable = True

    def __init__(self, message: str, *, retry_after: float, limited: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.limited = limited
        if limited:  # the upstream sent a 429 with Retry-After, so clients get the same
            self.status, self.code = 429, "rate_limit_exceeded"

    def join(self, other: "BackendPaused") -> None:
        """Add another paused upstream: its message, and the earlier of both retry times."""
        self.message = f"{other.message} {self.message}"
        self.retry_after = min(self.retry_after or 0.0, other.retry_after or 0.0)
        if not other.limited:
            self.limited, self.status, self.code = False, BackendPaused.status, BackendPaused.code

    def to_wire(self) -> dict[str, str | None]:
        wire = super().to_wire()
        return {**wire, "type": "rate_limit_error"} if self.limited else wire


class EmbeddingUnavailable(BackendError):
    """The embedding model of a vector store cannot be used now."""

    status = 503
    code = "embedding_unavailable"
    retryable = True

    def __init__(self, model: str, reason: AntiphonError) -> None:
        message = f"The vector store cannot be searched now, because its embedding model '{model}' fails."
        super().__init__(f"{message} {reason.message}")
        self.retry_after = reason.retry_after or Overloaded.retry_after


class RerankingUnavailable(BackendError):
    """The model that ranks results cannot be used now."""

    status = 503
    code = "reranking_unavailable"
    retryable = True

    def __init__(self, reason: AntiphonError) -> None:
        super().__init__(f"The results cannot be ranked now. {reason.message}")
        self.retry_after = reason.retry_after or Overloaded.retry_after


class BackendBroken(BackendError):
    """The model's server closed the connection or sent an invalid answer."""

    code = "upstream_protocol_error"


class McpError(AntiphonError):
    """The MCP server failed."""

    status = 424
    kind = "external_connector_error"
    param = "tools"

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number
        """The code of the JSON-RPC error, or the HTTP status."""


class McpProtocolError(McpError):
    """The MCP server answered with an error, or not as the protocol demands."""

    code = "mcp_protocol_error"


class McpHttpError(McpError):
    """The MCP server cannot be reached, took too long, or answered with an HTTP error."""

    code = "http_error"
    answered: bool = False
    """Whether it is the server's own answer, with the status `number`."""


class SettingsError(AntiphonError):
    """The configuration is invalid."""


class AddressInUse(SettingsError):
    """Another program listens on the address of the server."""


class Fenced(Exception):
    """A write was refused: its fencing token is no longer the newest, because another worker has taken the
    work over, or the work has ended. Not an `AntiphonError`: no client ever sees it."""
