"""Frames of a WebSocket: requests of the client, and the events and errors of the server.

A frame is parsed in two steps. `read_frame` reads its type and stream; `parse_create_frame` parses the
request when the stream is ready for it. So an error in the request is sent in the order of its stream.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import AntiphonError, InvalidRequest, Unsupported
from antiphon.protocol.bounds import check_values
from antiphon.protocol.events import Event
from antiphon.protocol.gate import decode_request
from antiphon.protocol.parse import decode
from antiphon.protocol.parse_create import check_create
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.protocol.requests import CreateResponse, RawCreate
from antiphon.protocol.shape import Shape, error_wire

CREATE = "response.create"
MAX_STREAM_ID_CHARACTERS = 256

_STREAM_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_STREAM_ID_CHARACTERS}}}")
_WHAT = "The frame"

_encode = msgspec.json.encode


class _RawFrame(Struct, frozen=True):
    """The members that determine the stream of a frame."""

    type: str
    stream_id: Any = None
    previous_response_id: Any = None


class _RawCreateFrame(RawCreate, frozen=True, kw_only=True):
    """The parameters of a create, and `generate`, which exists on a WebSocket only."""

    generate: bool | None = None


class Frame(Struct, frozen=True):
    """A frame whose request is not parsed yet. `stream_id` is None for the default stream."""

    type: str
    stream_id: str | None
    parent: str | None
    body: bytes


class CreateFrame(Struct, frozen=True):
    """A ``response.create``. Without `generate` no model is called: the request only prepares state."""

    request: CreateResponse
    generate: bool


def read_frame(message: str | bytes) -> Frame:
    """Read the type and the stream of a frame. It does not reject unknown types."""
    if isinstance(message, bytes):
        raise InvalidRequest("Binary frames are not accepted. Send JSON as text.", code="invalid_frame")
    body = message.encode()
    check_values(body)
    raw = decode(body, _RawFrame, _WHAT)
    if raw.stream_id is not None and not _is_stream_id(raw.stream_id):
        raise InvalidRequest(
            f"'stream_id' must be a string of 1 to {MAX_STREAM_ID_CHARACTERS} letters, digits, '_', '-' or "
            "'.'. Omit it for the default stream.",
            param="stream_id",
            code="invalid_stream_id",
        )
    parent = raw.previous_response_id
    return Frame(raw.type, raw.stream_id, parent if isinstance(parent, str) else None, body)


def _is_stream_id(value: object) -> bool:
    return isinstance(value, str) and _STREAM_ID.fullmatch(value) is not None


def unsupported_event(kind: str) -> Unsupported:
    """The error for a frame that is not a create."""
    return Unsupported(
        f"Frames of type '{kind[:100]}' are not supported. Send '{CREATE}'.",
        param="type",
        code="unsupported_event",
    )


def parse_create_frame(body: bytes, profile: Profile = OPENAI) -> CreateFrame:
    """Parse the request of a create. A WebSocket always streams, so `stream` has no effect."""
    raw, unused, unknown = decode_request(body, _RawCreateFrame, profile, _WHAT)
    if raw.background:
        raise Unsupported(
            "A WebSocket does not run responses in the background. Send this with `POST /v1/responses`.",
            param="background",
            code="unsupported_parameter",
        )
    generate = raw.generate is not False
    if not generate and not (profile.state and profile.layout == "natural"):
        raise Unsupported(
            f"'generate': false prepares stored state, and the profile '{profile.name}' has none. Omit it.",
            param="generate",
            code="unsupported_parameter",
        )
    # A request that only prepares may have tools and instructions alone.
    raw = replace(raw, stream=True)
    request = check_create(
        raw, profile, input_optional=not generate, unused=unused, unknown=unknown, input_bytes=len(body)
    )
    return CreateFrame(request, generate)


class FrameWriter:
    """Writes the frames of one stream. Each contains its `stream_id`, except those of the default stream."""

    __slots__ = ("_end", "_profile")

    def __init__(self, stream_id: str | None, profile: Profile = OPENAI) -> None:
        self._profile = profile
        self._end = b"}" if stream_id is None else b',"stream_id":%b}' % _encode(stream_id)

    def event(self, event: Event, shape: Shape) -> str:
        """The same object as in a stream of server-sent events."""
        return self._ended(shape.encode_event(event)[1])

    def error(self, error: AntiphonError) -> str:
        """The frame of an error that belongs to no response."""
        status, members = error_wire(error, self._profile)
        wire: dict[str, object] = {**members}
        if error.retry_after is not None:
            wire["headers"] = {"retry-after": str(max(1, round(error.retry_after)))}
        return self._ended(_encode({"type": "error", "status": status, "error": wire}))

    def _ended(self, body: bytes) -> str:
        return (body[:-1] + self._end).decode()
