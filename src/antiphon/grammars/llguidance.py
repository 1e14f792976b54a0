"""Grammars for engines that are built with llguidance: Lark after a prefix that selects the library.

Such an engine may have an older llguidance, and it ignores a grammar that it cannot parse, without an error.
So constructs that older versions do not support are rewritten.
"""

import re

from msgspec import UnsetType

from antiphon.grammars.grammar import GrammarFormat
from antiphon.grammars.lark import InvalidGrammar, Token, lark_tokens

_BYTE_ESCAPE = re.compile(r"(\\\\)|\\x([0-9a-fA-F]{2})")
_SLASH = re.compile(r"(\\.)|/", re.DOTALL)


def render_llguidance(form: GrammarFormat) -> str | None:
    """The value of llama.cpp's field `grammar`; None for plain text."""
    if form.type == "text" or isinstance(form.syntax, UnsetType) or isinstance(form.definition, UnsetType):
        return None
    lark = _render_lark(form.definition) if form.syntax == "lark" else _render_regex(form.definition)
    return f"%llguidance {{}}\n{lark}"


def _render_regex(regex: str) -> str:
    if not regex:
        return 'start: ""'
    body = _SLASH.sub(lambda found: found[1] or "\\/", regex)
    return f"start: /{body}/"


def _render_lark(definition: str) -> str:
    """Repetitions in braces, and no byte escapes in strings. Comments and spacing are lost, lines are not."""
    try:
        tokens = lark_tokens(definition)
    except InvalidGrammar:
        return definition
    rendered: list[str] = []
    place = 0
    while place < len(tokens):
        if tokens[place].text == "~":
            repetition, place = _repetition(tokens, place + 1)
            rendered.append(repetition)
        else:
            rendered.append(_render_token(tokens[place]))
            place += 1
    return " ".join(rendered)


def _repetition(tokens: list[Token], place: int) -> tuple[str, int]:
    """``2..5`` in braces, and the position after it."""
    least = tokens[place].text
    if tokens[place + 1 : place + 2] and tokens[place + 1].text == "..":
        return f"{{{least},{tokens[place + 2].text}}}", place + 3
    return f"{{{least}}}", place + 1


def _render_token(token: Token) -> str:
    if token.kind != "string":
        return token.text
    return _BYTE_ESCAPE.sub(lambda found: found[1] or f"\\u00{found[2]}", token.text)
