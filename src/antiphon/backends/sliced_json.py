"""Encode a large body in slices, between which other requests get their turn.

msgspec encodes in one call, which holds the event loop for 40 ms at 31 MB of plain text, and for 150 ms where
most characters are escaped. So the long texts are replaced by a mark, and encoded one slice after another
into the places of the marks. Long lists, such as messages, are encoded in portions.
"""

import asyncio
import secrets
from collections.abc import Iterable, Iterator
from types import NoneType
from typing import Any, cast

import msgspec
from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.protocol.long_texts import encoded_parts

LARGE_REQUEST_BYTES = 4 * 1024 * 1024
"""The bodies of smaller requests are encoded at once, in 5 ms, or 20 ms where most characters are escaped."""
SLICE_CHARACTERS = 128 * 1024
PORTION_ELEMENTS = 100
"""Of a list of the body that are encoded together."""
PORTION_CHARACTERS = 128 * 1024
"""In a portion whose texts have no more together, none is encoded by itself."""
MIN_PIECE_BYTES = 64 * 1024
"""Smaller pieces are joined, so that thousands of texts are not as many writes."""
_SCALARS = frozenset({int, float, bool, NoneType})


async def encode_sliced(body: JsonObject | Struct) -> list[bytes]:
    """The pieces of the encoded body. The loop is held for one slice at a time."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    size = 0
    for piece in _pieces(body):
        small.append(piece)
        size += len(piece)
        if size >= MIN_PIECE_BYTES:
            pieces.append(small[0] if len(small) == 1 else b"".join(small))
            small, size = [], 0
            await asyncio.sleep(0)
    return [*pieces, b"".join(small)]


def _pieces(body: JsonObject | Struct) -> Iterator[bytes]:
    members: JsonObject = msgspec.to_builtins(body) if isinstance(body, Struct) else body
    mark = secrets.token_hex(16)
    separator = b"{"
    for name, value in members.items():
        yield separator + msgspec.json.encode(name) + b":"
        separator = b","
        if isinstance(value, list) and len(cast("list[Any]", value)) > PORTION_ELEMENTS:
            yield from _portions(cast("list[Any]", value), mark)
        else:
            yield from _slices(value, mark)
    yield b"}" if members else b"{}"


def _portions(elements: list[Any], mark: str) -> Iterator[bytes]:
    """The JSON of a list."""
    separator = b"["
    for start in range(0, len(elements), PORTION_ELEMENTS):
        yield separator
        separator = b","
        portion = elements[start : start + PORTION_ELEMENTS]
        if _room_beside(portion, PORTION_CHARACTERS) >= 0:
            yield msgspec.json.encode(portion)[1:-1]
            continue
        last = b""
        for index, piece in enumerate(_slices(portion, mark)):
            yield last
            last = piece if index else piece[1:]
        yield last[:-1]
    yield b"]"


def _room_beside(value: JsonObject | list[Any], room: int) -> int:
    """How many of so many characters the texts of a value leave; negative: not enough, or other than JSON
    values. There may be thousands of members, so texts take no call."""
    members: Iterable[object] = value.values() if isinstance(value, dict) else value
    for member in members:
        if isinstance(member, str):
            room -= len(member)
        elif isinstance(member, dict | list):
            room = _room_beside(cast("JsonObject | list[Any]", member), room)
        elif type(member) not in _SCALARS:
            return -1
        if room < 0:
            break
    return room


def _slices(value: Any, mark: str) -> Iterator[bytes]:
    """The JSON of a value, a slice of long texts at a time."""
    for part in encoded_parts(value, mark):
        if isinstance(part, bytes):
            yield part
            continue
        yield b'"'
        for start in range(0, len(part), SLICE_CHARACTERS):
            yield msgspec.json.encode(part[start : start + SLICE_CHARACTERS])[1:-1]
        yield b'"'
