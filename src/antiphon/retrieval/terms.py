"""Terms for the index: those of a query, and the parts of compound names in a text."""

import re
from collections.abc import Iterator

MAX_TERMS = 64
"""Terms of one query; the rest is ignored."""
MAX_QUERY_CHARS = 20_000
"""Characters of a query that are read."""

_NAME = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_CAMEL_NAME = re.compile(r"\b\w*?(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z])\w*")
_SEAM = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_STOP_WORD_LIST = """
a about an and any are as at be been being but by can could did do does for from get gets give given had has
have how i if in into is it its just let may me might mine must my need no not of on one or our please shall
should show so some tell than that the their them then there these they this those to us use used using
want was we were what when where which who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_STOP_WORD_LIST.split())


def query_terms(query: str) -> list[str]:
    """The terms of a query, in order, without stop words.

    A compound name is a term, and so is each of its parts.
    """
    found: dict[str, None] = {}
    for name in _NAME.findall(query[:MAX_QUERY_CHARS]):
        for term in (name, *parts_of(name)):
            if (word := term.lower()) not in STOP_WORDS:
                found[word] = None
        if len(found) >= MAX_TERMS:
            break
    return list(found)[:MAX_TERMS]


def parts_of(name: str) -> list[str]:
    """`parseScope`, `parse_scope` and `ParseScope` have the parts `parse` and `scope`; a word has none."""
    parts = _SEAM.split(name)
    return parts if len(parts) > 1 else []


def name_parts(text: str) -> str:
    """The parts of all camel-case names in a text, once each. The tokenizer splits at underscores itself."""
    return " ".join(dict.fromkeys(_camel_parts(text)))


def _camel_parts(text: str) -> Iterator[str]:
    for name in _CAMEL_NAME.findall(text):
        yield from (part for part in parts_of(name) if part)
