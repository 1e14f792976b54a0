"""Decode the text in ``{"input": "…"}`` while it arrives, however it is cut."""

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
    """Decodes the text. Its state: in the head, in the text, after it, or in another form.

    Another form is decoded at the end, or passed unchanged. Characters after the text are ignored.
    """

    __slots__ = ("_emitted", "_head", "_rest", "_state")

    def __init__(self) -> None:
        self._state = "head"
        self._head = 0
        self._rest = ""
        self._emitted: list[str] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._emitted)

    def feed(self, piece: str) -> str:
        """The text in this piece, as far as it is certain."""
        if self._state == "head":
            piece = self._read_head(piece)
        if self._state != "text":
            return ""
        text = self._read_text(self._rest + piece)
        self._emitted.append(text)
        return text

    def resume(self, text: str) -> None:
        """Continue after `text`, which an earlier attempt emitted."""
        self._state = "text"
        self._emitted.append(text)

    def end(self, written: str) -> str:
        """The rest of the text, when everything is `written`."""
        if self._state == "other":
            rest = _other_text(written)
        else:
            rest = REPLACEMENT if len(self._rest) >= len("\\ud800") else ""
        self._rest = ""
        self._emitted.append(rest)
        return rest

    def _read_head(self, piece: str) -> str:
        """Read ``{"input":"`` with optional white space; return the part of the piece after it."""
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
        decoded: list[str] = []
        at = 0
        self._rest = ""
        while at < len(raw):
            plain = _PLAIN.match(raw, at)
            if plain is not None:
                decoded.append(plain[0])
                at = plain.end()
            elif raw[at] == '"':
                self._state = "behind"
                break
            else:
                sign, end = _escaped(raw, at)
                if end == at:
                    self._rest = raw[at:]
                    break
                decoded.append(sign)
                at = end
        return "".join(decoded)


def _escaped(raw: str, at: int) -> tuple[str, int]:
    """The escaped character and its end; an empty one if the escape is incomplete."""
    found = _ESCAPE.match(raw, at)
    if found is None:
        unfinished = _UNFINISHED.match(raw, at)
        invalid = unfinished is None or unfinished.end() < len(raw)
        return (raw[at], at + 1) if invalid else ("", at)
    if found[2] is not None:
        sign: str = found[2]
        literal = sign if sign in '"\\/' else f"\\{sign}"
        return _SIGNS.get(sign, literal), found.end()
    return _coded(raw, at, found)


def _coded(raw: str, at: int, found: re.Match[str]) -> tuple[str, int]:
    """A character by its code, perhaps as a surrogate pair."""
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
    """The input if it is the same object in another spelling; otherwise everything as it was written."""
    try:
        members = msgspec.json.decode(written, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return written
    text = members.get(INPUT)
    return text if isinstance(text, str) and len(members) == 1 else written
