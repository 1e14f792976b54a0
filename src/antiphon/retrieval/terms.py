"""Words for the index: what a question looks for, and the parts of the names in a text."""

import re
from collections.abc import Iterator

MAX_TERMS = 64
"""Terms of one question; more are left out, the last ones first."""
MAX_QUERY = 20_000
"""Characters of a question that are read."""

_NAME = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_CAMEL_NAME = re.compile(r"\b\w*?(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z])\w*")
_SEAM = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_SAYS_NOTHING = """
a about an and any are as at be been being but by can could did do does for from get gets give given had has
have how i if in into is it its just let may me might mine must my need no not of on one or our please shall
should show so some tell than that the their them then there these they this those to us use used using
want was we were what when where which who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_SAYS_NOTHING.split())


def query_terms(query: str) -> list[str]:
    """The terms of a question, in its order, without words that say nothing.

    A name of several parts is a term, and each of its parts is one.
    """
    found: dict[str, None] = {}
    for name in _NAME.findall(query[:MAX_QUERY]):
        for term in (name, *parts_of(name)):
            if (word := term.lower()) not in STOP_WORDS:
                found[word] = None
        if len(found) >= MAX_TERMS:
            break
    return list(found)[:MAX_TERMS]


def parts_of(name: str) -> list[str]:
    """`parseScope`, `parse_scope` and `ParseScope` are `parse` and `scope`; a single word has no parts."""
    parts = _SEAM.split(name)
    return parts if len(parts) > 1 else []


def name_parts(text: str) -> str:
    """The parts of all names in a text whose case parts them, once each. Underscores part words anyway."""
    return " ".join(dict.fromkeys(_camel_parts(text)))


def _camel_parts(text: str) -> Iterator[str]:
    for name in _CAMEL_NAME.findall(text):
        yield from (part for part in parts_of(name) if part)
