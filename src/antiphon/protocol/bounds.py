"""Bounds of the JSON that a client sends: how many values, how many elements, how deeply nested.

The size of a body does not bound its cost: 32 MB hold ten million empty objects, which take seconds of the
event loop and more than a gigabyte. Texts and pictures are few values.
"""

from collections.abc import Sized
from typing import Any, cast

from antiphon.errors import InvalidRequest, TooManyValues

MAX_VALUES = 250_000
"""Objects, arrays and separators of a body together."""
MAX_NESTING = 100
"""Levels of objects and arrays within an item, a tool or a schema."""
WINDOW_BYTES = 256 * 1024
"""A body is counted piece by piece, and not beyond the limit."""
UNCOUNTED_BYTES = 256 * 1024
"""The values of a smaller body are not counted: it cannot hold more than half of `MAX_VALUES`."""


_UNCOUNTED = bytes(set(range(256)) - set(b'"{[,'))


class ValueCounter:
    """Counts the values of JSON while it is received. The characters of texts do not count."""

    __slots__ = ("_escape", "_in_text", "_path", "values")

    def __init__(self, path: str = "") -> None:
        self._path = path
        self.values = 0
        self._in_text = False
        self._escape = b""
        """A backslash at the end of the last piece."""

    def begin(self) -> None:
        """Another document begins; its values are added to those of the others."""
        self._in_text, self._escape = False, b""

    def feed(self, piece: bytes) -> None:
        """Count the values of the next piece. Raises `TooManyValues`."""
        self.values += _structure(self._outside_texts(piece))
        if self.values > MAX_VALUES:
            what = f"The JSON in '{self._path}'" if self._path else "The request body"
            message = f"{what} holds more than {MAX_VALUES} values. Send fewer items, parts or members."
            raise TooManyValues(message, param=self._path or None)

    def _outside_texts(self, piece: bytes) -> bytes:
        """The characters outside of texts: without escapes, every second piece between quotes."""
        if self._escape or b"\\" in piece:
            piece = self._without_escapes(self._escape + piece)
        piece = piece.translate(None, _UNCOUNTED).replace(b'""', b"")  # most texts hold nothing that counts
        if b'"' not in piece:
            return b"" if self._in_text else piece
        pieces = piece.split(b'"')
        outside = b"".join(pieces[1::2] if self._in_text else pieces[::2])
        self._in_text ^= len(pieces) % 2 == 0
        return outside

    def _without_escapes(self, piece: bytes) -> bytes:
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        self._escape = b"\\" * (backslashes % 2)
        return piece[: len(piece) - len(self._escape)].replace(b"\\\\", b"").replace(b'\\"', b"")


def _structure(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[") + text.count(b",") if text else 0


def check_values(body: bytes, path: str = "") -> None:
    """Reject JSON with too many values, before they are decoded. `path`: the parameter; none: the body."""
    if len(body) > UNCOUNTED_BYTES:
        counter = ValueCounter(path)
        for start in range(0, len(body), WINDOW_BYTES):
            counter.feed(body[start : start + WINDOW_BYTES])


def check_texts(texts: list[str], path: str) -> None:
    """The same for JSON that is sent as text, such as the arguments of calls, all together."""
    if sum(map(len, texts)) > UNCOUNTED_BYTES:
        counter = ValueCounter(path)
        for text in texts:
            counter.begin()
            counter.feed(text.encode("utf-8", "surrogatepass"))


def check_nesting(value: object, path: str) -> None:
    """Reject a value with more than `MAX_NESTING` levels of objects and arrays."""
    level: list[Any] = [value] if type(value) is dict or type(value) is list else []
    for _ in range(MAX_NESTING):
        level = [
            child
            for node in level
            for child in (cast("dict[str, Any]", node).values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return
    message = f"'{path}' is nested too deeply; at most {MAX_NESTING} levels are accepted."
    raise InvalidRequest(message, param=path, code="nested_too_deeply")


def check_length(values: Sized, most: int, path: str, what: str) -> None:
    """Reject an array with more than `most` elements."""
    check_count(len(values), most, path, what)


def check_count(count: int, most: int, path: str, what: str) -> None:
    """Reject a parameter that holds more than `most` elements."""
    if count > most:
        message = f"'{path}' holds {count} {what}; at most {most} are accepted."
        raise InvalidRequest(message, param=path, code="array_above_max_length")
