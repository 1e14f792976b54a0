"""A response as its server wrote it: decoded, taken out of its event, and checked for failure.

Nothing in it can be relied on, so every member may be of any type. The structs below have only the members
that are read; the arguments of calls stay raw JSON.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw, Struct

from antiphon.protocol.content import JsonObject

RawResponse = str | bytes | bytearray | memoryview | Mapping[str, Any]
"""The JSON of a response, or of the terminal event of a stream; or the object itself."""

INVALID_RESPONSE = "invalid_response"
"""The error code of a body that is not a response."""
RESPONSE_FAILED = "response_failed"
"""The error code of a failed response without a code."""

_TERMINAL = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"},
)
_NOT_JSON = "it is not valid JSON."
_ABSENT = Raw()

_Scalar = str | int | float | bool | None


class Segment(Struct, gc=False):
    """An item of the output, a part of its content, or an object nested in a call."""

    type: Any = None
    content: "Segment | list[Segment | list[Any] | _Scalar] | _Scalar" = None
    text: Any = None
    refusal: Any = None
    finish_reason: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None
    arguments: Raw = _ABSENT
    input: Raw = _ABSENT
    tool_call: "Segment | list[Any] | _Scalar" = None
    function_call: "Segment | list[Any] | _Scalar" = None
    custom_tool_call: "Segment | list[Any] | _Scalar" = None
    status: Any = None
    annotations: Any = None
    server_label: Any = None
    output: Any = None
    error: Any = None
    action: Any = None
    queries: Any = None
    code: Any = None
    outputs: Any = None


class Members(Struct, gc=False):
    """The members of a response, of the event that carries it, and of an error instead of either."""

    type: Any = None
    id: Any = None
    model: Any = None
    status: Any = None
    output: "Segment | list[Segment | list[Any] | _Scalar] | _Scalar" = None
    output_text: Any = None
    usage: Any = None
    incomplete_details: Any = None
    error: Any = None
    code: Any = None
    message: Any = None
    response: "Members | list[Any] | _Scalar" = None


class Fault(NamedTuple):
    """Why there is no answer; empty members are unknown."""

    code: str
    message: str


class Decoded(NamedTuple):
    """The received body, as text and as members."""

    text: str | None
    """None: the object cannot be encoded as JSON."""
    members: Members
    complaint: str = ""
    """Why it has no members; empty: it is a JSON object."""


class Received(NamedTuple):
    """A response, and its fault, if any."""

    text: str | None
    response: Members
    fault: Fault | None


def receive(raw: RawResponse) -> Received:
    """Read a response. Never raises: an invalid response has a fault."""
    text, members, complaint = decode_members(raw)
    response = _unwrapped(members)
    fault = _fault_of(response)
    if fault is None and not isinstance(response.output, list | Segment):
        why = complaint or "it has no 'output'."
        fault = Fault(INVALID_RESPONSE, f"This is not a response of the Responses API: {why}")
    return Received(text, response, fault)


def decode_members(raw: RawResponse) -> Decoded:
    try:
        text = _text_of(raw)
    except UnicodeDecodeError as error:
        return Decoded(error.object.decode(errors="replace"), Members(), _NOT_JSON)
    except Exception:  # noqa: BLE001 -- reading a mapping may raise anything
        return Decoded(None, Members(), "it cannot be encoded as JSON.")
    try:
        found = _DECODER.decode(text)
    except UnicodeEncodeError:  # a lone surrogate, which cannot be sent to a client
        return Decoded(text.encode(errors="replace").decode(), Members(), _NOT_JSON)
    except (ValueError, RecursionError):
        return Decoded(text, Members(), _NOT_JSON)
    if isinstance(found, Members):
        return Decoded(text, found)
    return Decoded(text, Members(), "it is not a JSON object.")


def error_object(value: object) -> Fault | None:
    """OpenAI's error object, or only its text; None: it has neither a code nor a message."""
    if isinstance(value, str):
        return Fault("", value) if value.strip() else None
    members = cast("JsonObject", value) if isinstance(value, dict) else {}
    return _fault(members.get("type"), members.get("code"), members.get("message"))


def bare_error(members: Members) -> Fault | None:
    """An error without an envelope: the event `error`, or the body of an error status."""
    kind = None if members.type == "error" else members.type  # the type of the event, not of the error
    return _fault(kind, members.code, members.message)


def incomplete_reason(response: Members) -> str:
    """The reason of an incomplete response; empty: unknown."""
    details = response.incomplete_details
    return string(cast("JsonObject", details).get("reason")) if isinstance(details, dict) else ""


def string(value: object) -> str:
    """The value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def _text_of(raw: RawResponse) -> str:
    """The JSON as text, without a byte order mark."""
    if isinstance(raw, str):
        return raw.removeprefix("\ufeff")
    if isinstance(raw, bytes | bytearray | memoryview):
        return bytes(raw).decode("utf-8-sig")
    return msgspec.json.encode(raw, enc_hook=_as_dict).decode()


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")


def _unwrapped(members: Members) -> Members:
    """The response itself; the terminal event of a stream carries it."""
    inner = members.response
    return inner if isinstance(inner, Members) and string(members.type) in _TERMINAL else members


def _fault_of(response: Members) -> Fault | None:
    """The error that a response carries, or that a stream ended with."""
    given = error_object(response.error)
    if given is None and response.type == "error":
        given = bare_error(response)
    if given is None and response.status != "failed":
        return None
    code, message = given or ("", "")
    return Fault(code or RESPONSE_FAILED, message or "The response failed without an error message.")


def _fault(kind: object, code: object, message: object) -> Fault | None:
    """The code of a fault is the error's type, as AGN-004 has it; else its code."""
    fault = Fault(_label(kind) or _label(code), string(message))
    return fault if any(fault) else None


def _label(value: object) -> str:
    """A code: a string, or a number, which some servers send."""
    return str(value) if type(value) is int else string(value)


_DECODER = msgspec.json.Decoder(Members | list[Any] | str | int | float | bool | None)
