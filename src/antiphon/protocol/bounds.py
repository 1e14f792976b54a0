"""Bounds of the JSON that a client sends: how many values, how many elements, how deeply nested.

The size of a body does not bound its cost: 32 MB hold ten million empty objects, which take seconds of the
event loop and more than a gigabyte. Texts and pictures are few values.
"""

from collections.abc import Sized
from typing import Any, cast

from antiphon.errors import InvalidRequest

MAX_VALUES = 250_000
"""Objects, arrays and separators of a body together."""
MAX_NESTING = 100
"""Levels of objects and arrays within an item, a tool or a schema."""
UNCOUNTED_BYTES = 256 * 1024
"""The values of a smaller body are not counted: it cannot hold more than half of `MAX_VALUES`."""

_STRUCTURE = (b"{", b"[", b",")


def check_values(body: bytes, path: str = "") -> None:
    """Reject JSON with too many values, before they are decoded. `path`: the parameter; none: the body."""
    if len(body) <= UNCOUNTED_BYTES or sum(map(body.count, _STRUCTURE)) <= MAX_VALUES:
        return
    # The characters of texts do not count: without escaped quotes, every second piece is outside of a text.
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    pieces = unescaped.split(b'"', 2 * MAX_VALUES)
    structure = b"".join(pieces[::2])
    if len(pieces) > 2 * MAX_VALUES or sum(map(structure.count, _STRUCTURE)) > MAX_VALUES:
        what = f"The JSON in '{path}'" if path else "The request body"
        message = f"{what} holds more than {MAX_VALUES} values. Send fewer items, parts or members."
        raise InvalidRequest(message, param=path or None, code="too_many_values")


def check_texts(texts: list[str], path: str) -> None:
    """The same for JSON that is sent as text, such as the arguments of calls, all together."""
    if sum(map(len, texts)) > UNCOUNTED_BYTES:
        check_values(",".join(texts).encode("utf-8", "surrogatepass"), path)


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
