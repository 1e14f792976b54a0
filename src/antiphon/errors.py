"""Every error Antiphon raises, in one tree.

    AntiphonError
    ├── RequestError            the caller's fault: 4xx, never retried
    │   ├── InvalidRequest      400  malformed, contradictory or out of range
    │   │   └── Unsupported     400  well-formed, but this model or build cannot serve it
    │   ├── Unauthorized        401
    │   ├── Forbidden           403  the key is known, but may not do this
    │   ├── NotFound            404  a response, an item or a route
    │   │   └── ModelNotFound   404
    │   ├── MethodNotAllowed    405
    │   ├── BodyTimeout         408  the body did not arrive in time
    │   ├── BodyTooLarge        413
    │   ├── UnsupportedMedia    415
    │   ├── UpgradeRequired     426  a plain request where a WebSocket was meant
    │   ├── TooManyRequests     429  more at a time than we hold for one client
    │   └── HeadersTooLarge     431
    ├── Unavailable             503  we are draining or not ready; try again
    │   └── StoreUnavailable    503  the database cannot be reached
    ├── StoreFull               507  the database has no room left
    ├── BackendError            the model's side failed: 5xx, or the status it asked for
    │   ├── BackendRefused      the upstream answered with an error of its own
    │   │   └── ResponsesCallFailed   a Responses server, seen by the orchestrator; keeps the body
    │   ├── BackendUnreachable  502  no connection
    │   ├── BackendTimeout      504  a deadline passed
    │   ├── BackendBusy         429  the model does as much as it may here; it was not asked
    │   ├── BackendPaused       503  the upstream failed too often lately; it was not asked
    │   └── BackendBroken       502  the upstream answered with something that is not the protocol
    └── SettingsError           the configuration is wrong; raised at start, never in a request

The wire form is OpenAI's error object, ``{"message", "type", "param", "code"}``; `to_wire` is the only
place that makes it. A class docstring is the default message.
"""

from typing import ClassVar


class AntiphonError(Exception):
    """Something went wrong inside Antiphon."""

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
    """The request cannot be served as it is."""

    status = 400
    kind = "invalid_request_error"


class InvalidRequest(RequestError):
    """The request is malformed."""

    code = "invalid_value"


class Unsupported(InvalidRequest):
    """This feature is not supported here."""

    code = "unsupported_value"


class Unauthorized(RequestError):
    """Incorrect API key provided. Send another as `Authorization: Bearer KEY` or `x-api-key: KEY`."""

    status = 401
    code = "invalid_api_key"


class Forbidden(RequestError):
    """This API key may not do that."""

    status = 403
    code = "insufficient_scope"


class NotFound(RequestError):
    """There is nothing here."""

    status = 404
    code = "not_found"


class ModelNotFound(NotFound):
    """The requested model does not exist."""

    code = "model_not_found"
    param = "model"


class MethodNotAllowed(RequestError):
    """This path does not take that method."""

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


class UnsupportedMedia(RequestError):
    """The request body must be JSON: send `Content-Type: application/json`."""

    status = 415
    code = "unsupported_media_type"


class UpgradeRequired(RequestError):
    """This server does not speak WebSocket here. Use `POST /v1/responses`."""

    status = 426
    code = "websocket_unavailable"


class TooManyRequests(RequestError):
    """Too many requests at a time. Send the next one when an answer has ended."""

    status = 429
    kind = "rate_limit_error"
    code = "rate_limit_exceeded"


class HeadersTooLarge(RequestError):
    """The request headers are too large."""

    status = 431
    code = "headers_too_large"


class Unavailable(AntiphonError):
    """The server is shutting down. Try again in a moment."""

    status = 503
    code = "server_unavailable"
    retry_after = 1.0


class StoreUnavailable(Unavailable):
    """The database cannot be reached right now. Try again in a moment."""

    code = "store_unavailable"


class StoreFull(AntiphonError):
    """The database has no room left: nothing new can be stored until the operator makes some."""

    status = 507
    code = "store_full"


class BackendError(AntiphonError):
    """The model's server failed."""

    status = 502
    code = "upstream_error"
    retryable: bool = False
    """Whether the same turn may succeed when it is sent again, here or elsewhere."""


class BackendRefused(BackendError):
    """The model's server refused the request."""

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
        """As the base, with the type that OpenAI gives to this status."""
        wire = super().to_wire()
        if self.status == 429:
            wire["type"] = "rate_limit_error"
        elif self.status < 500:
            wire["type"] = "invalid_request_error"
        return wire


class ResponsesCallFailed(BackendRefused):
    """A call of a Responses server failed: it refused, or gave no answer."""

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
    """The model does as much as it may here. Try again later."""

    status = 429
    kind = "rate_limit_error"
    code = "rate_limit_exceeded"
    retryable = True

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BackendPaused(BackendError):
    """The model's server failed too often lately and is left alone for a while."""

    status = 503
    code = "upstream_paused"
    retryable = True

    def __init__(self, message: str, *, retry_after: float, limited: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.limited = limited
        if limited:  # it did not fail: it asked us to wait, and so do we
            self.status, self.code = 429, "rate_limit_exceeded"

    def join(self, other: "BackendPaused") -> None:
        """Neither of two can be asked: say so of both, and when the first of them can."""
        self.message = f"{other.message} {self.message}"
        self.retry_after = min(self.retry_after or 0.0, other.retry_after or 0.0)
        if not other.limited:
            self.limited, self.status, self.code = False, BackendPaused.status, BackendPaused.code

    def to_wire(self) -> dict[str, str | None]:
        """As the base, with the type that OpenAI gives to this status."""
        wire = super().to_wire()
        return {**wire, "type": "rate_limit_error"} if self.limited else wire


class BackendBroken(BackendError):
    """The model's server broke off or sent something that is not a valid answer."""

    code = "upstream_protocol_error"


class SettingsError(AntiphonError):
    """The configuration is wrong."""


class Fenced(Exception):
    """A write was refused: its fencing token is no longer the newest, because another worker has taken the
    work over, or the work has ended. Not an `AntiphonError`: no client ever sees it."""
