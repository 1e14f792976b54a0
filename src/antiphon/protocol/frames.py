"""Frames of a WebSocket: what a client may send, and how events and errors travel back.

A frame is read in two steps. `read_frame` finds out where it belongs; `parse_create_frame` reads the request,
when it is its turn. So an error in the request is sent in the order of its stream.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import AntiphonError, InvalidRequest, Unsupported
from antiphon.protocol.events import Event
from antiphon.protocol.gate import decode_request
from antiphon.protocol.parse import decode
from antiphon.protocol.parse_create import check_create
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.protocol.requests import CreateResponse, RawCreate
from antiphon.protocol.shape import Shape, error_wire

CREATE = "response.create"
MAX_STREAM_ID = 256

_STREAM_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_STREAM_ID}}}")
_WHAT = "The frame"

_encode = msgspec.json.encode


class _RawFrame(Struct, frozen=True):
    """What decides where a frame belongs."""

    type: str
    stream_id: Any = None
    previous_response_id: Any = None


class _RawCreateFrame(RawCreate, frozen=True, kw_only=True):
    """The parameters of a create, and the one that only a WebSocket has."""

    generate: bool | None = None


class Frame(Struct, frozen=True):
    """A frame of a client whose request is not read yet. `stream_id` is None for the default lane."""

    type: str
    stream_id: str | None
    parent: str | None
    body: bytes


class CreateFrame(Struct, frozen=True):
    """A ``response.create``. Without `generate` no model is asked: the state is prepared, nothing more."""

    request: CreateResponse
    generate: bool


def read_frame(message: str | bytes) -> Frame:
    """Find out what a frame is and where it belongs; an unknown type is not refused here."""
    if isinstance(message, bytes):
        raise InvalidRequest("Binary frames are not taken; send JSON as text.", code="invalid_frame")
    body = message.encode()
    raw = decode(body, _RawFrame, _WHAT)
    if raw.stream_id is not None and not _is_stream_id(raw.stream_id):
        raise InvalidRequest(
            f"'stream_id' must be a string of 1 to {MAX_STREAM_ID} letters, digits, '_', '-' or '.'. "
            "Leave it out for the default lane.",
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
    """Read and check the request of a create. A WebSocket always streams, so `stream` says nothing here."""
    raw, unused = decode_request(body, _RawCreateFrame, profile, _WHAT)
    if raw.background:
        raise Unsupported(
            "A WebSocket does not run responses in the background. Send this with `POST /v1/responses`.",
            param="background",
            code="unsupported_parameter",
        )
    generate = raw.generate is not False
    if not generate and not (profile.state and profile.layout == "natural"):
        raise Unsupported(
            f"'generate': false prepares what is kept and continued; the profile '{profile.name}' does not "
            "do that. Leave it out.",
            param="generate",
            code="unsupported_parameter",
        )
    # Who only prepares may do it with tools and instructions alone.
    raw = replace(raw, stream=True)
    request = check_create(raw, profile, input_optional=not generate, unused=unused)
    return CreateFrame(request, generate)


class FrameWriter:
    """Writes the frames of one lane: each carries its `stream_id`, those of the default lane have none."""

    __slots__ = ("_end", "_profile")

    def __init__(self, stream_id: str | None, profile: Profile = OPENAI) -> None:
        self._profile = profile
        self._end = b"}" if stream_id is None else b',"stream_id":%b}' % _encode(stream_id)

    def event(self, event: Event, shape: Shape) -> str:
        """The same object as in a stream of server-sent events."""
        return self._ended(shape.encode_event(event)[1])

    def error(self, error: AntiphonError) -> str:
        """The envelope of an error that belongs to no response."""
        status, members = error_wire(error, self._profile)
        wire: dict[str, object] = {**members}
        if error.retry_after is not None:
            wire["headers"] = {"retry-after": str(max(1, round(error.retry_after)))}
        return self._ended(_encode({"type": "error", "status": status, "error": wire}))

    def _ended(self, body: bytes) -> str:
        return (body[:-1] + self._end).decode()
