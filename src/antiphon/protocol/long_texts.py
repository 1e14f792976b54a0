"""JSON whose long texts are encoded apart from the rest: in slices, or once for several places.

msgspec encodes 8 MB of text in 8 ms, and nothing else runs meanwhile, whichever thread does it.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, cast

import msgspec

from antiphon.protocol.content import JsonObject

LONG_TEXT_CHARACTERS = 16 * 1024


def encoded_parts(value: Any, mark: str) -> Iterator[bytes | str]:
    """The JSON of a value as bytes; between them its long texts, which are not encoded. The `mark` stands in
    their places meanwhile: it is random, of letters and digits."""
    texts = list[str]()
    skeleton = msgspec.json.encode(_marked(msgspec.to_builtins(value), mark, texts))
    for part, text in zip_longest(skeleton.split(f'"{mark}"'.encode()), texts):
        yield part
        if text is not None:
            yield text


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


class RepeatedTexts:
    """Encodes values that repeat the same long texts: each text once."""

    __slots__ = ("_encoded", "_mark")

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._encoded: dict[str, bytes] = {}

    def encode(self, value: Any) -> list[bytes]:
        """The JSON of a value, in parts."""
        parts = encoded_parts(value, self._mark)
        return [part if isinstance(part, bytes) else self._text(part) for part in parts]

    def _text(self, text: str) -> bytes:
        encoded = self._encoded.get(text)
        if encoded is None:
            encoded = self._encoded[text] = msgspec.json.encode(text)
        return encoded
