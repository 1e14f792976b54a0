"""The tokens of a Lark grammar: names, strings, regular expressions, signs.

Clients write Lark. llguidance accepts more than that: JSON schemas, intersections, tokens of a model. Those
are rejected here, because an intersection of two short expressions can keep the library busy forever.
"""

import re
from itertools import pairwise
from typing import Literal, NamedTuple

TokenKind = Literal["rule", "terminal", "string", "regex", "number", "newline", "directive", "sign"]

_TOKENS = re.compile(
    r"""(?P<skip>[ \t\f]+|(?:\#|//)[^\n]*)
      |(?P<newline>\r?\n)
      |(?P<string>"(?:\\.|[^"\\\n])*"i?)
      |(?P<regex>/(?!/)(?:\\.|[^/\\])+/[imslux]*)
      |(?P<directive>%[a-z]+)
      |(?P<rule>!?[?_]*[a-z][_a-z0-9-]*)
      |(?P<terminal>_*[A-Z][_A-Z0-9-]*)
      |(?P<number>[0-9]+)
      |(?P<sign>->|\.\.|::|[:|()\[\]{}*+?~,.&])""",
    re.VERBOSE,
)
DIRECTIVES = frozenset({"%import", "%ignore"})
_NOT_LARK = {
    "&": "intersections ('&')",
    "::": "rules with parameters ('::')",
    "<": "tokens of a model ('<…>')",
    "@": "references to other grammars ('@…')",
}


class Token(NamedTuple):
    kind: TokenKind
    text: str
    line: int


_END = Token("newline", "", 0)
"""Follows the last token."""


class InvalidGrammar(ValueError):
    """Why a definition is rejected; `line` is 0 if the reason has no line."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


def lark_tokens(definition: str) -> list[Token]:
    """The tokens in order. Raises `InvalidGrammar` for anything that is not Lark or not accepted here."""
    tokens: list[Token] = []
    position, line = 0, 1
    while position < len(definition):
        match = _TOKENS.match(definition, position)
        if match is None:
            raise _unknown_character(definition[position], line)
        kind, position = match.lastgroup, match.end()
        if kind != "skip":
            tokens.append(_token(kind, match[0], line))  # pyright: ignore[reportArgumentType]
        line += match[0].count("\n")
    _reject_extensions(tokens)
    return tokens


def _token(kind: TokenKind, text: str, line: int) -> Token:
    if kind == "directive" and text not in DIRECTIVES:
        raise InvalidGrammar(f"'{text}' is not accepted here; only '%import' and '%ignore' are", line)
    if kind == "sign" and text in _NOT_LARK:
        raise InvalidGrammar(f"{_NOT_LARK[text]} are not part of Lark", line)
    return Token(kind, text, line)


def _unknown_character(character: str, line: int) -> InvalidGrammar:
    if character in _NOT_LARK:
        return InvalidGrammar(f"{_NOT_LARK[character]} are not part of Lark", line)
    if character in "\"'/":
        return InvalidGrammar("a string or a regular expression is not closed", line)
    return InvalidGrammar(f"{character!r} has no meaning here", line)


def _reject_extensions(tokens: list[Token]) -> None:
    """Reject what means one thing in Lark and another in the library."""
    at_line_start = True
    repeats = False
    for token, following in pairwise([*tokens, _END]):
        # In Lark a tilde repeats: `"a"~2..5`. In the library it negates, unless a number follows.
        if token.text == "~" and following.kind != "number":
            raise InvalidGrammar("negations ('~') are not part of Lark", token.line)
        if repeats and token.text == ".." and following.kind != "number":
            raise InvalidGrammar("a repetition ('~2..5') has no number after '..'", token.line)
        repeats = token.text == "~" or (repeats and token.kind == "number")
        if at_line_start and token.kind == "rule" and following.text == "[":
            raise InvalidGrammar("attributes of a rule ('[…]') are not part of Lark", token.line)
        at_line_start = token.kind == "newline"
