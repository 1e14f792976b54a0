"""Grammars for engines that have `llguidance` in them: Lark, after a word that says so.

Such an engine may have an older `llguidance` than we have, and what that one cannot read it ignores without a
word: the model then writes what it likes. So what older ones do not know is said as they know it.
"""

import re

from msgspec import UnsetType

from antiphon.protocol.lark_tokens import BadGrammar, Token, lark_tokens
from antiphon.protocol.tools import TextFormatGrammar

_BYTE = re.compile(r"(\\\\)|\\x([0-9a-fA-F]{2})")
_SLASH = re.compile(r"(\\.)|/", re.DOTALL)


def with_llguidance(form: TextFormatGrammar) -> str | None:
    """The grammar as llama.cpp takes it if it was built so; None for plain text."""
    if form.type == "text" or isinstance(form.syntax, UnsetType) or isinstance(form.definition, UnsetType):
        return None
    lark = _plain(form.definition) if form.syntax == "lark" else _alone(form.definition)
    return f"%llguidance {{}}\n{lark}"


def _alone(regex: str) -> str:
    """A grammar that is one regular expression."""
    if not regex:
        return 'start: ""'
    body = _SLASH.sub(lambda found: found[1] or "\\/", regex)
    return f"start: /{body}/"


def _plain(definition: str) -> str:
    """Counts in braces, and no bytes in strings. Line by line as it was, but for comments and spaces."""
    try:
        tokens = lark_tokens(definition)
    except BadGrammar:
        return definition
    words: list[str] = []
    place = 0
    while place < len(tokens):
        if tokens[place].text == "~":
            count, place = _count(tokens, place + 1)
            words.append(count)
        else:
            words.append(_word(tokens[place]))
            place += 1
    return " ".join(words)


def _count(tokens: list[Token], place: int) -> tuple[str, int]:
    """``2..5`` in braces, and where it ends."""
    least = tokens[place].text
    if tokens[place + 1 : place + 2] and tokens[place + 1].text == "..":
        return f"{{{least},{tokens[place + 2].text}}}", place + 3
    return f"{{{least}}}", place + 1


def _word(token: Token) -> str:
    if token.kind != "string":
        return token.text
    return _BYTE.sub(lambda found: found[1] or f"\\u00{found[2]}", token.text)
