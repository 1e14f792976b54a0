"""JSON-RPC messages of MCP, without I/O."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from antiphon.errors import McpError, McpProtocolError, TooManyValues
from antiphon.http.redact import redact
from antiphon.mcp.port import McpProgress, OnProgress
from antiphon.protocol.bounds import MAX_VALUES, check_values

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
INVALID_RESULT = INTERNAL_ERROR
CONNECTION_CLOSED = -32000
REQUEST_TIMEOUT = -32001
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
DECLINED = -1
"""The code for a request that the user declines."""

_DECLINES = {"ping": {}, "elicitation/create": {"action": "decline"}}
"""What a request of the server is answered with; all others are refused."""


class Outgoing(NamedTuple):
    """A request on its way to a server."""

    id: int
    method: str
    data: bytes
    """The message."""
    headers: dict[str, str]
    """For transports over HTTP."""
    on_progress: OnProgress | None = None
    resend: bool = True
    """Whether it may be sent twice."""


class RpcError(Struct):
    """The `error` of a reply."""

    code: int = INVALID_RESULT
    message: str = ""
    data: Raw | UnsetType = UNSET


class Message(Struct):
    """A message of a server: a reply, a request or a notification."""

    id: int | str | None = None
    method: str | None = None
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: RpcError | None = None

    @property
    def is_reply(self) -> bool:
        return self.method is None


class _ProgressParams(Struct, rename="camel"):
    progress_token: int | str
    progress: float
    total: float | None = None
    message: str | None = None


class ReplyError(McpProtocolError):
    """The server replied with an error."""

    def __init__(self, label: str, error: RpcError) -> None:
        text = redact(error.message) or "no reason was given"
        super().__init__(f"The MCP server '{label}' answered with error {error.code}: {text}", error.code)
        self.data = error.data


T = TypeVar("T")
_decoder = msgspec.json.Decoder(Message)
_progress_decoder = msgspec.json.Decoder(_ProgressParams)


def encode_request(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def encode_notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return msgspec.json.encode(message if params is None else {**message, "params": params})


def encode_cancellation(number: int) -> bytes:
    """The notification that nobody waits for a reply any more."""
    return encode_notification(
        "notifications/cancelled", {"requestId": number, "reason": "The caller has stopped waiting."}
    )


def decode_message(data: bytes, label: str) -> Message:
    """A message; raises `McpProtocolError` if this is none."""
    return decode(data, _decoder, label)


def decode(data: bytes | Raw, decoder: "msgspec.json.Decoder[T]", label: str) -> T:
    """JSON of a server as a typed value; raises `McpProtocolError` if it is invalid or too complex."""
    try:
        check_values(bytes(data))
        return decoder.decode(data)
    except TooManyValues:
        reason = f"JSON with more than {MAX_VALUES} values"
    except RecursionError:
        reason = "JSON that is nested too deeply"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"a message that is not MCP ({redact(str(error), limit=200)})"
    raise McpProtocolError(f"The MCP server '{label}' sent {reason}.", PARSE_ERROR)


def result_of(reply: Message, label: str) -> Raw:
    """The result of a reply; raises `ReplyError`."""
    if reply.error is not None:
        raise ReplyError(label, reply.error)
    if isinstance(reply.result, UnsetType):
        raise McpProtocolError(f"The MCP server '{label}' sent a reply without a result.", INVALID_RESULT)
    return reply.result


def progress_of(message: Message) -> tuple[int | str, McpProgress] | None:
    """The token and the content of a progress notification; None if it is another message."""
    if message.method != "notifications/progress" or isinstance(message.params, UnsetType):
        return None
    try:
        found = _progress_decoder.decode(message.params)
    except (msgspec.DecodeError, RecursionError):
        return None  # what it is about cannot be known
    text = redact(found.message or "", limit=200)
    return found.progress_token, McpProgress(found.progress, found.total, text)


def answer_to(message: Message) -> bytes:
    """The answer to a request of the server: there is nobody here who could be asked, and no model."""
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message.id}
    if message.method in _DECLINES:
        return msgspec.json.encode({**reply, "result": _DECLINES[message.method]})
    sampling = message.method == "sampling/createMessage"
    reason = "Sampling is declined." if sampling else "This client does not offer this method."
    error = {"code": DECLINED if sampling else METHOD_NOT_FOUND, "message": reason}
    return msgspec.json.encode({**reply, "error": error})


def connection_closed(label: str, why: str) -> McpError:
    """The error of requests whose connection has ended."""
    return McpProtocolError(f"The MCP server '{label}' {why}", CONNECTION_CLOSED)
