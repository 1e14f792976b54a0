"""The text in ``{"input": "…"}`` while it is being written, however it is cut."""

import re

import msgspec

from antiphon.turn.function_forms.calls import INPUT

_HEAD = ("{", f'"{INPUT}"', ":", '"')
_SPACE = " \t\r\n"
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([^u]))")
_UNFINISHED = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_LOW = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_LOW_UNFINISHED = re.compile(r"\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?")
_SIGNS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class InputText:
    """Reads the text. It is in the head, in the text, behind it, or has met something else.

    What is not written as asked for is told at the end, as it is. Behind the text nothing counts any more.
    """

    __slots__ = ("_head", "_rest", "_said", "_state")

    def __init__(self) -> None:
        self._state = "head"
        self._head = 0
        self._rest = ""
        self._said: list[str] = []

    @property
    def text(self) -> str:
        """What was told so far."""
        return "".join(self._said)

    def feed(self, piece: str) -> str:
        """The text in this piece, as far as it is certain."""
        if self._state == "head":
            piece = self._read_head(piece)
        if self._state != "text":
            return ""
        told = self._read_text(self._rest + piece)
        self._said.append(told)
        return told

    def tell(self, text: str) -> None:
        """This was told before."""
        self._state = "text"
        self._said.append(text)

    def end(self, written: str) -> str:
        """What is left to be told of everything that was `written`: no more will come."""
        if self._state == "other":
            told = _other_text(written)
        else:
            told = REPLACEMENT if len(self._rest) >= len("\\ud800") else ""
        self._rest = ""
        self._said.append(told)
        return told

    def _read_head(self, piece: str) -> str:
        """Go on in ``{"input":"``, with space anywhere between; what of the piece is behind it."""
        self._rest += piece
        while self._head < len(_HEAD):
            left, sign = self._rest.lstrip(_SPACE), _HEAD[self._head]
            if left.startswith(sign):
                self._head, self._rest = self._head + 1, left[len(sign) :]
                continue
            if not sign.startswith(left):
                self._state = "other"
            return ""
        self._state, behind, self._rest = "text", self._rest, ""
        return behind

    def _read_text(self, raw: str) -> str:
        told: list[str] = []
        at = 0
        self._rest = ""
        while at < len(raw):
            plain = _PLAIN.match(raw, at)
            if plain is not None:
                told.append(plain[0])
                at = plain.end()
            elif raw[at] == '"':
                self._state = "behind"
                break
            else:
                sign, end = _escaped(raw, at)
                if end == at:
                    self._rest = raw[at:]
                    break
                told.append(sign)
                at = end
        return "".join(told)


def _escaped(raw: str, at: int) -> tuple[str, int]:
    """The character that is escaped here, and where it ends; nothing, if its end is not there yet."""
    found = _ESCAPE.match(raw, at)
    if found is None:
        unfinished = _UNFINISHED.match(raw, at)
        whole = unfinished is None or unfinished.end() < len(raw)
        return (raw[at], at + 1) if whole else ("", at)
    if found[2] is not None:
        sign: str = found[2]
        kept = sign if sign in '"\\/' else f"\\{sign}"
        return _SIGNS.get(sign, kept), found.end()
    return _coded(raw, at, found)


def _coded(raw: str, at: int, found: re.Match[str]) -> tuple[str, int]:
    """A character by its code; some are written as two halves."""
    code = int(found[1], 16)
    if not 0xD800 <= code <= 0xDFFF:
        return chr(code), found.end()
    if code <= 0xDBFF:
        low = _LOW.match(raw, found.end())
        if low is not None:
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00), low.end()
        begun = _LOW_UNFINISHED.match(raw, found.end())
        if found.end() == len(raw) or (begun is not None and begun.end() == len(raw)):
            return "", at
    return REPLACEMENT, found.end()


def _other_text(written: str) -> str:
    """Text that does not begin as it should: the same in another spelling, or whatever was written."""
    try:
        members = msgspec.json.decode(written, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return written
    text = members.get(INPUT)
    return text if isinstance(text, str) and len(members) == 1 else written
