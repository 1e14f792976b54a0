"""In which shape an error leaves: OpenAI's error object, or Anthropic's for the clients of its API."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from antiphon.errors import AntiphonError
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.protocol.shape import error_wire
from antiphon.server.guard import Head

Header = tuple[bytes, bytes]


class ErrorShape(NamedTuple):
    """How the clients of an API are told. `id_header`: where they look for the id of the request, besides
    `x-request-id`."""

    tell: Callable[[AntiphonError, Profile, str], tuple[int, bytes]]
    id_header: bytes | None = None

    def headers(self, request_id: str) -> tuple[Header, ...]:
        """What every answer of this API carries."""
        return () if self.id_header is None else ((self.id_header, request_id.encode()),)


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
    """Anthropic's error object: its name for what a status says, and the message. There is no member for the
    parameter, so the message begins with it, unless it names it anyway."""
    kind = _ANTHROPIC_TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    named = message if param is None or param in message else f"{param}: {message}"
    return {"type": kind, "message": named}


def _tell_openai(error: AntiphonError, profile: Profile, _request_id: str) -> tuple[int, bytes]:
    status, wire = error_wire(error, profile)
    return status, msgspec.json.encode({"error": wire})


def _tell_anthropic(error: AntiphonError, _profile: Profile, request_id: str) -> tuple[int, bytes]:
    told = anthropic_error(error.status, error.message, error.param)
    return error.status, msgspec.json.encode({"type": "error", "error": told, "request_id": request_id})


def _tell_chat(error: AntiphonError, _profile: Profile, request_id: str) -> tuple[int, bytes]:
    """A profile changes nothing at a door."""
    return _tell_openai(error, OPENAI, request_id)


OPENAI_ERRORS = ErrorShape(_tell_openai)
CHAT_ERRORS = ErrorShape(_tell_chat)
ANTHROPIC_ERRORS = ErrorShape(_tell_anthropic, b"request-id")


def error_shape(path: str, head: Head, *, routed: bool = True) -> ErrorShape:
    """The shape for a request: by its door. The header that only one API has counts where both have a door,
    and where there is none: not `routed`."""
    if path.startswith("/v1/messages"):
        return ANTHROPIC_ERRORS
    if path == "/v1/chat/completions":
        return CHAT_ERRORS
    if head.anthropic_version and (not routed or _is_models(path)):
        return ANTHROPIC_ERRORS
    return OPENAI_ERRORS


def _is_models(path: str) -> bool:
    """Whether it is one of the routes that answer in either shape."""
    return path == "/v1/models" or (path.startswith("/v1/models/") and not path.endswith("/capabilities"))
