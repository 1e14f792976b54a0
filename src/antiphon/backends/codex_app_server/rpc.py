"""JSON-RPC as codex speaks it: one message a line, without the member `jsonrpc`. Sans-IO."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Raw

from antiphon.backends.codex_app_server.wire import Message
from antiphon.errors import BackendBroken
from antiphon.http.redact import excerpt

Decoded = TypeVar("Decoded")

MAX_LINE_BYTES = 256 * 1024 * 1024
"""The most bytes in one line. Codex repeats the history, including images."""
METHOD_NOT_FOUND = -32601

_DECODER = msgspec.json.Decoder(Message)


class LineReader:
    """Bytes in, messages out."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that these bytes complete. Raises `BackendBroken` at an invalid one, after those
        before it."""
        first, *others = data.split(b"\n")
        self._keep(first)
        for piece in others:
            line = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            if line.strip():
                yield _decode(line)
            self._keep(piece)

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise BackendBroken(f"codex sent a line of more than {self._limit} bytes.")


def _decode(line: bytes) -> Message:
    try:
        message = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError):
        message = Message()
    if message.method is None and message.id is None:
        raise BackendBroken(f"codex sent something that is not its protocol: {excerpt(line)}")
    return message


def decode(raw: Raw, kind: type[Decoded]) -> Decoded:
    """Decode the content of a message. Raises `BackendBroken` for another type."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BackendBroken(f"codex sent something that is not its protocol: {error}.") from None


def request_line(number: int, method: str, params: object) -> bytes:
    """A request; the answer will carry its number."""
    return _line({"id": number, "method": method, "params": params})


def notification_line(method: str) -> bytes:
    """A message that is not answered."""
    return _line({"method": method})


def result_line(number: int | str, result: object) -> bytes:
    """The answer to a request of codex."""
    return _line({"id": number, "result": result})


def refusal_line(number: int | str, code: int, message: str) -> bytes:
    """The refusal of a request of codex."""
    return _line({"id": number, "error": {"code": code, "message": message}})


def _line(message: dict[str, object]) -> bytes:
    return msgspec.json.encode(message) + b"\n"
