"""A large JSON body whose long texts are decoded piece by piece, so that no step holds the event loop.

msgspec decodes a body in one call: 35 ms for 31 MB of plain text, 90 ms where most characters are escaped.
The part of a piece that lies within one text can be decoded by itself. So these parts are taken out, with a
mark in their place, and the rest is decoded at once; then the texts are put into the places of their marks. A
text grows while it arrives: to join its parts at the end took 20 ms for 31 MB, most of it for new memory.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject

LARGE_BODY_BYTES = 1024 * 1024
"""Smaller bodies are decoded at once."""
MAX_RESTORED_VALUES = 20_000
"""Into more values than this the texts are not put back: to decode everything at once is faster."""
MIN_TAKEN_BYTES = 4 * 1024
SLICE_CHARACTERS = 128 * 1024
_MAX_ESCAPE_BYTES = len(rb"\ud83d\ude00")
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_POSITION = re.compile(r" \(byte \d+\)")
_decode_text = msgspec.json.Decoder(str).decode


class LargeBody:
    """A body without its long texts, and these texts. The `secret` is random, of letters and digits."""

    __slots__ = ("_mark", "_rest", "_skeleton", "_takes", "_texts", "_within_text", "size")

    def __init__(self, secret: str) -> None:
        self.size = 0
        self._mark = f"~{secret}"
        """With a number it stands for a text. Nobody can send it, because nobody knows the secret; and it
        does not complete an escape."""
        self._skeleton: list[bytes] = []
        self._texts: list[str] = []
        self._rest = b""
        """The beginning of a character or an escape whose end has not been added."""
        self._within_text = False
        self._takes = False
        """Whether the last piece was taken out, so that the next one may continue it."""

    def __len__(self) -> int:
        return self.size

    def add(self, piece: bytes) -> None:
        """The next piece."""
        self.size += len(piece)
        piece = self._rest + piece
        end = len(piece) - _incomplete(piece)
        piece, self._rest = piece[:end], piece[end:]
        plain = _without_escapes(piece)
        quotes = plain.count(b'"')
        if not quotes:
            self._add_part(piece, within_text=self._within_text)
            return
        begin = plain.find(b'"') if self._takes else 0
        self._within_text ^= quotes % 2 == 1
        end = plain.rfind(b'"') + 1 if self._within_text else len(piece)
        self._add_part(piece[:begin], within_text=True)
        self._add_part(piece[begin:end], within_text=False)
        self._add_part(piece[end:], within_text=True)

    def _add_part(self, part: bytes, *, within_text: bool) -> None:
        if part and not (within_text and self._take(part)):
            self._skeleton.append(part)
            self._takes = False

    def _take(self, part: bytes) -> bool:
        """Take a part of a text out; False if it is too small, or not valid: the error is found later. What
        continues a text that was taken out is never too small."""
        if len(part) < MIN_TAKEN_BYTES and not self._takes:
            return False
        try:
            text = _decode_text(b'"%b"' % part)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        if not self._takes:
            self._skeleton.append(f"{self._mark}{len(self._texts)}.".encode())
            self._texts.append("")
            self._takes = True
        _extend_last(self._texts, text)
        return True

    @property
    def has_texts(self) -> bool:
        """Whether anything was taken out; if not, the skeleton is the body."""
        return bool(self._texts)

    def skeleton(self) -> bytes:
        """The body with marks instead of the long texts."""
        return b"".join([*self._skeleton, self._rest])

    def encoded(self) -> Iterator[bytes]:
        """The pieces of the body with its texts, which are encoded again."""
        first, *others = re.split(rb"%b(\d+)\." % self._mark.encode(), self.skeleton())
        yield first
        for number, after in zip(others[::2], others[1::2], strict=True):
            text = self._texts[int(number)]
            for start in range(0, len(text), SLICE_CHARACTERS):
                yield msgspec.json.encode(text[start : start + SLICE_CHARACTERS])[1:-1]
            yield after

    def decode(self, what: str) -> Any:
        """The JSON as plain values. Raises `InvalidRequest`."""
        try:
            value = msgspec.json.decode(self.skeleton())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = _POSITION.sub("", str(error))  # that of the skeleton
            raise InvalidRequest(f"{what} is not valid JSON: {reason}.", code="invalid_json") from None
        except RecursionError:
            raise InvalidRequest(f"{what} is nested too deeply.", code="invalid_json") from None
        return _Restored(self._mark, self._texts).value(value)


Body = bytes | LargeBody


class _Restored:
    """Puts the texts back."""

    def __init__(self, mark: str, texts: list[str]) -> None:
        self._mark = mark
        self._numbered = re.compile(rf"{mark}(\d+)\.")
        self._texts = texts

    def value(self, value: Any) -> Any:
        """The value with its texts."""
        if isinstance(value, str):
            return self._text(value) if self._mark in value else value
        if isinstance(value, list):
            return [self.value(element) for element in cast("list[Any]", value)]
        if isinstance(value, dict):
            members = cast("JsonObject", value)
            return {
                self._text(name) if self._mark in name else name: self.value(member)
                for name, member in members.items()
            }
        return value

    def _text(self, text: str) -> str:
        first, *others = self._numbered.split(text)
        pieces = [first]
        for number, after in zip(others[::2], others[1::2], strict=True):
            pieces += self._texts[int(number)], after
        return "".join(filter(None, pieces))  # no copy if one of them is the complete text


def _extend_last(texts: list[str], text: str) -> None:
    """Append to the last text, without a copy of it: CPython extends a string in place if nothing but a local
    variable refers to it."""
    last = texts.pop()
    last += text
    texts.append(last)


def _without_escapes(piece: bytes) -> bytes:
    """The piece with other characters for escaped quotes; it does not begin or end within an escape."""
    return piece.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in piece else piece


def _incomplete(piece: bytes) -> int:
    """How many bytes at the end begin a character or an escape that is not complete."""
    return _incomplete_character(piece) or _incomplete_escape(piece)


def _incomplete_character(piece: bytes) -> int:
    for length in range(1, min(4, len(piece) + 1)):
        byte = piece[-length]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:  # the first byte gives the length of the character
            expected = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if length < expected else 0
    return 0


def _incomplete_escape(piece: bytes) -> int:
    """An escape that is cut, or the first half of a pair that may be one character."""
    start = piece.rfind(b"\\", max(0, len(piece) - _MAX_ESCAPE_BYTES))
    if start < 0 or not _begins_escape(piece, start):
        return 0
    escape = piece[start:]
    if len(escape) == 1 or (escape[1:2] == b"u" and len(escape) < 6):
        before = start - 6
        if before >= 0 and _HIGH_SURROGATE.match(piece, before) and _begins_escape(piece, before):
            start = before
        return len(piece) - start
    return len(escape) if len(escape) == 6 and _HIGH_SURROGATE.match(escape) else 0


def _begins_escape(piece: bytes, at: int) -> bool:
    """Whether the backslash is not escaped itself."""
    until = piece[: at + 1]
    return (len(until) - len(until.rstrip(b"\\"))) % 2 == 1
