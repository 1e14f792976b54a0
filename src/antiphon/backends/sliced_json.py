"""Encode a large body in slices, between which other requests get their turn.

msgspec encodes in one call, which holds the event loop for 40 ms at 31 MB of plain text, and for 150 ms where
most characters are escaped. So the long texts are replaced by a mark, and encoded one slice after another
into the places of the marks.
"""

import asyncio
import secrets
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.protocol.long_texts import encoded_parts

LARGE_REQUEST_BYTES = 1024 * 1024
"""The bodies of smaller requests are encoded at once."""
SLICE_CHARACTERS = 128 * 1024
MIN_PIECE_BYTES = 64 * 1024
"""Smaller pieces are joined, so that thousands of texts are not as many writes."""


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
    for part in encoded_parts(body, secrets.token_hex(16)):
        if isinstance(part, bytes):
            yield part
            continue
        yield b'"'
        for start in range(0, len(part), SLICE_CHARACTERS):
            yield msgspec.json.encode(part[start : start + SLICE_CHARACTERS])[1:-1]
        yield b'"'
