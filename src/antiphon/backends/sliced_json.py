"""Encode a large body in slices, between which other requests get their turn.

msgspec encodes in one call, which holds the event loop for 40 ms at 31 MB of plain text, and for 150 ms where
most characters are escaped. So the long texts are replaced by a mark, and encoded one slice after another
into the places of the marks.
"""

import asyncio
import secrets
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, cast

import msgspec

from antiphon.protocol.content import JsonObject

LARGE_REQUEST_BYTES = 1024 * 1024
"""The bodies of smaller requests are encoded at once."""
LONG_TEXT_CHARACTERS = 16 * 1024
SLICE_CHARACTERS = 128 * 1024
MIN_PIECE_BYTES = 64 * 1024
"""Smaller pieces are joined, so that thousands of texts are not as many writes."""


async def encode_sliced(body: JsonObject) -> list[bytes]:
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


def _pieces(body: JsonObject) -> Iterator[bytes]:
    mark, texts = secrets.token_hex(16), list[str]()
    skeleton = msgspec.json.encode(_marked(msgspec.to_builtins(body), mark, texts))
    for part, text in zip_longest(skeleton.split(f'"{mark}"'.encode()), texts):
        yield part
        if text is not None:
            yield b'"'
            for start in range(0, len(text), SLICE_CHARACTERS):
                yield msgspec.json.encode(text[start : start + SLICE_CHARACTERS])[1:-1]
            yield b'"'


def _marked(value: Any, mark: str, texts: list[str]) -> Any:
    """The value with marks in the places of long texts, which are added to `texts` in their order."""
    match value:
        case str():
            if len(value) <= LONG_TEXT_CHARACTERS:
                return value
            texts.append(value)
            return mark
        case dict():
            members = cast("JsonObject", value)
            return {name: _marked(member, mark, texts) for name, member in members.items()}
        case list():
            return [_marked(element, mark, texts) for element in cast("list[Any]", value)]
        case _:
            return value
