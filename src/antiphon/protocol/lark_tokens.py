"""The words of a Lark grammar: names, strings, regular expressions, signs. Sans meaning.

Who writes a grammar uses Lark. The library that checks it takes more than that: schemas, intersections,
tokens of a model. Those are refused here: an intersection of two short expressions can take it forever.
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
_NO_LARK = {
    "&": "intersections ('&')",
    "::": "rules with parameters ('::')",
    "<": "tokens of a model ('<…>')",
    "@": "references to other grammars ('@…')",
}


class Token(NamedTuple):
    """A word, and the line it stands in."""

    kind: TokenKind
    text: str
    line: int


class BadGrammar(ValueError):
    """A grammar that is none, and why; `line` is 0 if no line is to blame."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


def lark_tokens(definition: str) -> list[Token]:
    """The words in their order; `BadGrammar` for what is no part of a Lark grammar, or not taken here."""
    tokens: list[Token] = []
    position, line = 0, 1
    while position < len(definition):
        match = _TOKENS.match(definition, position)
        if match is None:
            raise _unknown(definition[position], line)
        kind, position = match.lastgroup, match.end()
        if kind != "skip":
            tokens.append(_token(kind, match[0], line))  # pyright: ignore[reportArgumentType]
        line += match[0].count("\n")
    _refuse_extensions(tokens)
    return tokens


def _token(kind: TokenKind, text: str, line: int) -> Token:
    if kind == "directive" and text not in DIRECTIVES:
        raise BadGrammar(f"'{text}' is not taken here; only '%import' and '%ignore' are", line)
    if kind == "sign" and text in _NO_LARK:
        raise BadGrammar(f"{_NO_LARK[text]} are no part of Lark", line)
    return Token(kind, text, line)


def _unknown(character: str, line: int) -> BadGrammar:
    if character in _NO_LARK:
        return BadGrammar(f"{_NO_LARK[character]} are no part of Lark", line)
    if character in "\"'/":
        return BadGrammar("a string or a regular expression is not closed", line)
    return BadGrammar(f"{character!r} means nothing here", line)


def _refuse_extensions(tokens: list[Token]) -> None:
    """What the library would take for something else than Lark does."""
    begins = True
    for token, following in pairwise(tokens):
        # In Lark a tilde counts: `"a"~2..5`. Before anything but a number it would mean "not".
        if token.text == "~" and token.kind == "sign" and following.kind != "number":
            raise BadGrammar("negations ('~') are no part of Lark", token.line)
        if begins and token.kind == "rule" and following.text == "[":
            raise BadGrammar("attributes of a rule ('[…]') are no part of Lark", token.line)
        begins = token.kind == "newline"
