"""Lark grammars as rules. They were checked before: what is not understood here cannot be said otherwise."""

import json
import re
from collections.abc import Sequence

from msgspec import Struct

from antiphon.protocol.lark_tokens import BadGrammar, Token, lark_tokens
from antiphon.turn.grammars.parts import (
    NOTHING,
    Inexpressible,
    Part,
    Ref,
    Repeat,
    Spaced,
    Text,
    chars,
    choice,
    series,
)
from antiphon.turn.grammars.regexes import any_case, regex_part

_NUMBER = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "_EXP": "[eE][+-]?[0-9]+",
    "FLOAT": _NUMBER,
    "SIGNED_FLOAT": f"[+-]?(?:{_NUMBER})",
    "NUMBER": f"[0-9]+|{_NUMBER}",
    "SIGNED_NUMBER": f"[+-]?(?:[0-9]+|{_NUMBER})",
    "ESCAPED_STRING": r'"(?:[^"\\]|\\.)*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[_A-Za-z][_A-Za-z0-9]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*[^*]*\*+(?:[^/*][^*]*\*+)*/",
    "SQL_COMMENT": r"--[^\n]*",
}
"""What `%import common.…` gives."""

_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_BYTE = re.compile(r"(\\\\)|\\x([0-9a-fA-F]{2})")
_ENDS = frozenset({"|", ")", "]", "->"})
START = "start"


class LarkRules(Struct, frozen=True):
    """The definitions by name, and what may stand between words."""

    rules: dict[str, Part]
    ignored: Part | None = None


def lark_rules(definition: str) -> LarkRules:
    """Read a grammar; raises `Inexpressible`."""
    try:
        tokens = lark_tokens(definition)
    except BadGrammar as error:
        raise Inexpressible(error.why) from None
    rules: dict[str, Part] = {}
    ignored: list[Part] = []
    for statement in _statements(tokens):
        _read(statement, rules, ignored)
    spaces = Repeat(choice(ignored)) if ignored else None
    return LarkRules(rules, spaces)


def _statements(tokens: Sequence[Token]) -> list[list[Token]]:
    """One definition each. A line that begins with a bar goes on with the one before it."""
    statements: list[list[Token]] = []
    begins = True
    for token in tokens:
        if token.kind == "newline":
            begins = True
        elif begins and (token.text != "|" or not statements):
            statements.append([token])
            begins = False
        else:
            statements[-1].append(token)
            begins = False
    return statements


def _read(statement: list[Token], rules: dict[str, Part], ignored: list[Part]) -> None:
    head = statement[0]
    if head.text == "%import":
        rules.update(_imported(statement[1:]))
    elif head.text == "%ignore":
        reader = _Reader(statement[1:], spaced=False)
        ignored.append(reader.alternatives())
        reader.expect_end()
    elif head.kind in ("rule", "terminal") and len(statement) > 1 and statement[1].text == ":":
        reader = _Reader(statement[2:], spaced=head.kind == "rule")
        rules[_bare(head.text)] = reader.alternatives()
        reader.expect_end()
    else:
        raise Inexpressible("a definition with templates or priorities")


def _imported(tokens: list[Token]) -> dict[str, Part]:
    """``common.NAME``, ``common.NAME -> ALIAS`` or ``common (NAME, NAME)``."""
    words = [token.text for token in tokens]
    match words:
        case ["common", ".", name]:
            found = {name: name}
        case ["common", ".", name, "->", alias]:
            found = {alias: name}
        case ["common", "(", *names, ")"]:
            found = {name: name for name in names if name != ","}
        case _:
            raise Inexpressible("an import from elsewhere")
    if not COMMON.keys() >= set(found.values()):
        raise Inexpressible("an unknown import")
    return {alias: regex_part(COMMON[name]) for alias, name in found.items()}


def _bare(name: str) -> str:
    return name.lstrip("!?")


class _Reader:
    """Reads what stands behind a colon. `spaced`: whether its words may have ignored text between them."""

    def __init__(self, tokens: list[Token], *, spaced: bool) -> None:
        self._tokens = tokens
        self._place = 0
        self._spaced = spaced

    def _text(self, ahead: int = 0) -> str:
        """A sign or a number that comes; empty for everything else."""
        place = self._place + ahead
        token = self._tokens[place] if place < len(self._tokens) else None
        return token.text if token and token.kind in ("sign", "number") else ""

    def _take(self) -> Token:
        if self._place >= len(self._tokens):
            raise Inexpressible("a definition that ends too early")
        self._place += 1
        return self._tokens[self._place - 1]

    def _expect(self, text: str) -> None:
        if self._take().text != text:
            raise Inexpressible(f"no '{text}'")

    def expect_end(self) -> None:
        """Nothing may be left."""
        if self._place < len(self._tokens):
            raise Inexpressible(f"'{self._tokens[self._place].text}'")

    def alternatives(self) -> Part:
        """Expansions, parted by bars."""
        options = [self._expansion()]
        while self._text() == "|":
            self._take()
            options.append(self._expansion())
        return choice(options)

    def _expansion(self) -> Part:
        parts: list[Part] = []
        while self._place < len(self._tokens) and self._text() not in _ENDS:
            parts.append(self._repeated(self._atom()))
        if self._text() == "->":
            self._take()
            self._take()  # the name is for a syntax tree
        return series(parts)

    def _repeated(self, part: Part) -> Part:
        text = self._text()
        if text in _QUANTIFIERS:
            self._take()
            return Repeat(part, *_QUANTIFIERS[text])
        if text == "~":
            self._take()
            least = self._number()
            most = least
            if self._text() == "..":
                self._take()
                most = self._number()
            return Repeat(part, least, most)
        return self._counted(part) if text == "{" else part

    def _counted(self, part: Part) -> Part:
        """``{2}``, ``{2,}``, ``{,3}`` or ``{2,3}``."""
        self._take()
        least = 0 if self._text() == "," else self._number()
        most: int | None = least
        if self._text() == ",":
            self._take()
            most = None if self._text() == "}" else self._number()
        self._expect("}")
        return Repeat(part, least, most)

    def _number(self) -> int:
        text = self._take().text
        if not text.isdecimal():
            raise Inexpressible(f"'{text}' instead of a number")
        return int(text)

    def _atom(self) -> Part:
        token = self._take()
        match token.kind:
            case "rule":
                return Ref(_bare(token.text))
            case "terminal":
                return self._word(Ref(token.text))
            case "regex":
                body, _, flags = token.text[1:].rpartition("/")
                return self._word(regex_part(body.replace("\\/", "/"), flags))
            case "string":
                return self._word(self._string(token.text))
            case "sign" if token.text in ("(", "["):
                inner = self.alternatives()
                self._expect(")" if token.text == "(" else "]")
                return inner if token.text == "(" else Repeat(inner, 0, 1)
            case _:
                raise Inexpressible(f"'{token.text}'")

    def _word(self, part: Part) -> Part:
        return Spaced(part) if self._spaced and part != NOTHING else part

    def _string(self, text: str) -> Part:
        if self._text() == "..":
            self._take()
            first, last = _unquoted(text), _unquoted(self._take().text)
            if len(first) != 1 or len(last) != 1:
                raise Inexpressible("a range between longer texts")
            return chars([(ord(first), ord(last))])
        if text.endswith("i"):
            return any_case(_unquoted(text[:-1]))
        return Text(_unquoted(text))


def _unquoted(text: str) -> str:
    """What a quoted text says: as in JSON, and ``\\x41`` beside it."""
    try:
        return json.loads(_BYTE.sub(lambda found: found[1] or f"\\u00{found[2]}", text), strict=False)
    except ValueError:
        raise Inexpressible(f"the text {text}") from None
