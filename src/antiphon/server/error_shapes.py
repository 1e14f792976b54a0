"""Error shapes: OpenAI's error object, or Anthropic's. Each route declares its shape."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from antiphon.errors import AntiphonError
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.protocol.shape import error_wire

Header = tuple[bytes, bytes]


class ErrorShape(NamedTuple):
    """Renders the errors of one API. `id_header` carries the request id, besides `x-request-id`."""

    render: Callable[[AntiphonError, Profile, str], tuple[int, bytes]]
    id_header: bytes | None = None

    def headers(self, request_id: str) -> tuple[Header, ...]:
        """The headers of every answer of this API, errors or not."""
        return () if self.id_header is None else ((self.id_header, request_id.encode()),)


_CHALLENGE: tuple[Header, ...] = ((b"www-authenticate", b"Bearer"),)


def challenge(status: int) -> tuple[Header, ...]:
    """The header of every 401: how a client authenticates (RFC 9110, section 15.5.2)."""
    return _CHALLENGE if status == 401 else ()


_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def anthropic_error(status: int, message: str, param: str | None) -> dict[str, str]:
    """Anthropic's error object. It has no member for the parameter, so the message is prefixed with it,
    unless it contains it."""
    kind = _ANTHROPIC_TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    named = message if param is None or param in message else f"{param}: {message}"
    return {"type": kind, "message": named}


def internal_error(request_id: str) -> AntiphonError:
    """The error for an exception that nothing else handles. The caller logs the exception."""
    return AntiphonError(f"Internal error; see the server log (request {request_id}).", code="internal_error")


def _render_openai(error: AntiphonError, profile: Profile, _request_id: str) -> tuple[int, bytes]:
    status, wire = error_wire(error, profile)
    return status, msgspec.json.encode({"error": wire})


def _render_anthropic(error: AntiphonError, _profile: Profile, request_id: str) -> tuple[int, bytes]:
    wire = anthropic_error(error.status, error.message, error.param)
    return error.status, msgspec.json.encode({"type": "error", "error": wire, "request_id": request_id})


def _render_chat(error: AntiphonError, _profile: Profile, request_id: str) -> tuple[int, bytes]:
    """Profiles do not apply to the compatible endpoints."""
    return _render_openai(error, OPENAI, request_id)


OPENAI_ERRORS = ErrorShape(_render_openai)
CHAT_ERRORS = ErrorShape(_render_chat)
ANTHROPIC_ERRORS = ErrorShape(_render_anthropic, b"request-id")
