"""Reads a JSON string piece by piece, and counts its characters."""

import re

import msgspec

from antiphon.turn.json_prefix.faults import FaultFound, Undecided, unexpected
from antiphon.turn.json_prefix.rules import StringRule

_RUN = re.compile(r'[^"\\\x00-\x1f]*')
_RUN_WITH_ESCAPES = re.compile(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt])*+')
_SHORT_ESCAPES = frozenset('"\\/bfnrt')
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_ESCAPE_CHARACTERS = 6
"""Of an escape by number, with its backslash."""


class StringReader:
    """The current string."""

    __slots__ = ("_collects", "_counts", "_escape", "_high", "_length", "_pieces", "_rule", "_run", "ended")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._escape = ""
        """The part of an escape that has arrived."""
        self._high = False
        """Whether the first half of a surrogate pair waits for the second one."""
        self.begin(StringRule(()), collects=False)

    def begin(self, rule: StringRule, *, collects: bool) -> None:
        """A string begins; its opening quote was read. `collects`: its text has to be known."""
        self._rule = rule
        self._collects = collects
        self._length = 0
        self._pieces.clear()
        self._counts = collects or not rule.is_free
        self._run = _RUN if self._counts else _RUN_WITH_ESCAPES
        self.ended = False

    def read(self, text: str, position: int) -> int:
        """Read up to the closing quote or the end of the piece. Raises `FaultFound`."""
        end = len(text)
        while position < end:
            if self._escape:
                position = self._read_escape(text, position)
                continue
            start, position = position, self._after_run(text, position)
            if self._counts and position > start:
                self._take(text[start:position], position)
            if position == end:
                return end
            if text[position] == '"' and not self._high:
                return self._end(position + 1)
            if text[position] != "\\":
                raise unexpected(text, position)
            self._escape = "\\"
            position += 1
        return position

    def _after_run(self, text: str, position: int) -> int:
        """The end of the characters that stand for themselves."""
        match = None if self._high else self._run.match(text, position)
        return position if match is None else match.end()

    def decoded(self) -> str:
        """The text of a string that was collected. Raises `Undecided` if it cannot be encoded."""
        raw = "".join(self._pieces)
        if "\\" not in raw:
            return raw
        try:
            return msgspec.json.decode(f'"{raw}"', type=str)
        except UnicodeEncodeError:
            raise Undecided from None

    def _take(self, run: str, after: int) -> None:
        self._length += len(run)
        self._check_length(after)
        if self._collects:
            self._pieces.append(run)

    def _check_length(self, after: int) -> None:
        longest = self._rule.max_length
        if longest is not None and self._length > longest:
            excess = self._length - longest
            raise FaultFound(after - excess + 1, f"the string has more than {longest} characters")

    def _read_escape(self, text: str, position: int) -> int:
        character, escape = text[position], self._escape
        if len(escape) == 1:
            fits = character == "u" or (character in _SHORT_ESCAPES and not self._high)
        else:
            fits = character in _HEX_DIGITS
        if not fits:
            raise unexpected(text, position)
        self._escape = escape = escape + character
        if len(escape) == _ESCAPE_CHARACTERS or escape[1] != "u":
            self._escape_ended(text, position)
        return position + 1

    def _escape_ended(self, text: str, position: int) -> None:
        escape, self._escape = self._escape, ""
        unit = int(escape[2:], 16) if escape[1] == "u" else 0
        if (0xDC00 <= unit <= 0xDFFF) != self._high:
            raise unexpected(text, position)
        if self._collects:
            self._pieces.append(escape)
        if self._high:  # the second half of a character that was counted
            self._high = False
            return
        self._high = 0xD800 <= unit <= 0xDBFF
        self._length += 1
        self._check_length(position + 1)

    def _end(self, after: int) -> int:
        self.ended = True
        rule = self._rule
        if not self._counts:
            return after
        if self._length < rule.min_length:
            raise FaultFound(after, f"the string has fewer than {rule.min_length} characters")
        if rule.choices is not None and self.decoded() not in rule.choices:
            raise FaultFound(after, "the string is none of the allowed values")
        return after
