"""JSON-RPC messages as an MCP server reads and writes them, without I/O."""

from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from antiphon.errors import AntiphonError
from antiphon.mcp.messages import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from antiphon.protocol.content import JsonObject
from antiphon.protocol.profile import Profile
from antiphon.server.error_shapes import ErrorShape

MAX_BATCH_MESSAGES = 20

RequestId = int | str
T = TypeVar("T")

_ANY_ERA_STATUS = {PARSE_ERROR: 400, INVALID_REQUEST: 400, HEADER_MISMATCH: 400, UNSUPPORTED_VERSION: 400}
_MODERN_STATUS = {**_ANY_ERA_STATUS, INVALID_PARAMS: 400, METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 500}
"""Before 2026-07-28 the error of a request was a reply like any other, with the status 200."""


class RpcFault(Exception):
    """A message that cannot be processed: the `error` of the reply."""

    def __init__(
        self, code: int, message: str, data: JsonObject | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self._status = status

    def status(self, *, modern: bool) -> int:
        """The HTTP status of the reply."""
        return self._status or (_MODERN_STATUS if modern else _ANY_ERA_STATUS).get(self.code, 200)


class _Message(Struct):
    jsonrpc: Literal["2.0"]
    id: RequestId | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class RpcMessage(NamedTuple):
    """A request; without an id a notification; without a method a reply, which nobody has asked for here."""

    id: RequestId | None
    method: str
    params: bytes

    @property
    def is_request(self) -> bool:
        return self.id is not None and bool(self.method)


_decoder = msgspec.json.Decoder(_Message)
_array_decoder = msgspec.json.Decoder(list[Raw])


def read_body(body: bytes) -> RpcMessage | list[Raw]:
    """The message of a body, or the messages of a batch, which are not read yet. Raises `RpcFault`."""
    if body.lstrip(b" \t\r\n")[:1] != b"[":
        return read_message(body)
    messages = _decoded(body, _array_decoder)
    if not 1 <= len(messages) <= MAX_BATCH_MESSAGES:
        message = f"A batch has from 1 to {MAX_BATCH_MESSAGES} messages; this one has {len(messages)}."
        raise RpcFault(INVALID_REQUEST, message)
    return messages


def read_message(data: bytes | Raw) -> RpcMessage:
    """One message. Raises `RpcFault`."""
    found = _decoded(data, _decoder)
    method = "" if isinstance(found.method, UnsetType) else found.method
    replied = not isinstance(found.result, UnsetType) or not isinstance(found.error, UnsetType)
    if not method and not replied:
        raise RpcFault(INVALID_REQUEST, "Invalid JSON-RPC message: it needs 'method', 'result' or 'error'.")
    params = b"{}" if isinstance(found.params, UnsetType) else bytes(found.params)
    return RpcMessage(None if isinstance(found.id, UnsetType) else found.id, method, params)


def read_params(message: RpcMessage, kind: type[T]) -> T:
    """The parameters as a typed value. Raises `RpcFault`."""
    try:
        return msgspec.json.decode(message.params, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcFault(INVALID_PARAMS, f"Invalid params of '{message.method[:100]}': {error}.") from None


def _decoded(data: bytes | Raw, decoder: "msgspec.json.Decoder[T]") -> T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise RpcFault(INVALID_REQUEST, f"This is no JSON-RPC message: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcFault(PARSE_ERROR, f"The body is not valid JSON: {error}.") from None


def result_reply(request_id: RequestId | None, result: JsonObject) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def fault_reply(request_id: RequestId | None, fault: RpcFault) -> bytes:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error})


def _render(error: AntiphonError, _profile: Profile, _request_id: str) -> tuple[int, bytes]:
    """An error before the message was read. Profiles do not apply: the form is that of JSON-RPC."""
    code = INTERNAL_ERROR if error.status >= 500 else INVALID_REQUEST
    return error.status, fault_reply(None, RpcFault(code, error.message, dict(error.to_wire())))


MCP_ERRORS = ErrorShape(_render)
