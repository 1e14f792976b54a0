"""Watches the text of an answer, as it arrives, for the first violation of its schema."""

import re

from antiphon.protocol.content import JsonObject
from antiphon.turn.json_prefix.checker import JsonPrefixCheck
from antiphon.turn.json_prefix.faults import PrefixFault, Undecided

MAX_PIECE_CHARACTERS = 8_192
"""Of one piece, so that other requests do not wait: that takes about 3 ms."""
_MAX_OPENING_CHARACTERS = 256
_OPENING = re.compile(r"\s*(?:```[a-zA-Z0-9]*[ \t]*\r?\n\s*)?(?=[{\[])")
_PARTIAL_OPENING = re.compile(r"\s*(?:`{1,2}|```[a-zA-Z0-9]*[ \t]*\r?(?:\n\s*)?)?")


class AnswerWatch:
    """Finds the first fault of an answer, or leaves it to the check at the end: that of an answer which does
    not begin with JSON, or with a code fence and JSON, and of one that is too complex."""

    def __init__(self, schema: JsonObject) -> None:
        self._check: JsonPrefixCheck | None = JsonPrefixCheck(schema)
        self._opening: str | None = ""
        """The text before the JSON so far; None after the JSON has begun."""

    def feed(self, text: str) -> PrefixFault | None:
        """Read the next piece; the fault, if this piece shows it."""
        check = self._check
        if check is None:
            return None
        if len(text) > MAX_PIECE_CHARACTERS:
            self._check = None
            return None
        if self._opening is not None:
            text = self._after_opening(self._opening + text)
        return self._found(check, text) if text else None

    def _after_opening(self, text: str) -> str:
        """The JSON of a text, if it has begun."""
        begun = _OPENING.match(text)
        if begun is not None:
            self._opening = None
            return text[begun.end() :]
        if len(text) > _MAX_OPENING_CHARACTERS or _PARTIAL_OPENING.fullmatch(text) is None:
            self._check = None
        self._opening = text
        return ""

    def _found(self, check: JsonPrefixCheck, text: str) -> PrefixFault | None:
        try:
            fault = check.feed(text)
        except Undecided:
            self._check = None
            return None
        if fault is not None:
            self._check = None
        return fault
