"""Terms for the index: those of a query, and the parts of compound names in a text.

Vector stores index stems (`text_terms`): words in lower case without accents and endings. A script without
spaces between words is indexed by pairs of adjacent characters.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

from antiphon.retrieval.stemming import stem

MAX_TERMS = 64
"""Terms of one query; the rest is ignored."""
MAX_QUERY_CHARS = 20_000
"""Characters of a query that are read."""
MAX_TERM_CHARS = 64
"""A longer word is indexed by its beginning."""

_NAME = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_UNSPACED = (
    "\u0e00-\u0eff"  # Thai and Lao
    "\u0f00-\u0fff"  # Tibetan
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"  # Japanese
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""Ranges of scripts that are written without spaces between words."""
_RUN = re.compile(f"([{_UNSPACED}]+)|[^\\W_{_UNSPACED}]+(?:_+[^\\W_{_UNSPACED}]+)*")
"""Characters of an unspaced script, or a name."""
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


def text_terms(text: str) -> list[str]:
    """The terms of a text, repeated as often as they occur. Single characters of an unspaced script are
    terms, too, for queries of one character.

    A compound name such as `parse_scope` has the terms of its parts, and `parsescope`.
    """
    return _terms(text, lambda run: [*_pairs(run), *run] if len(run) > 1 else [run])


def _terms(text: str, split: Callable[[str], list[str]]) -> list[str]:
    """The terms of a text; `split` returns those of a run of characters of an unspaced script."""
    terms: list[str] = []
    for found in _RUN.finditer(unicodedata.normalize("NFKC", text)):
        name = found[0]
        if found[1]:
            terms += split(name)
            continue
        parts = parts_of(name) if "_" in name or not (name.islower() or name.istitle()) else []
        for part in (*parts, "".join(parts)) if parts else (name,):
            terms.append(stem(_plain(part))[:MAX_TERM_CHARS])
    return terms


def text_query_terms(query: str) -> list[str]:
    """The distinct terms of a query for texts with `text_terms`. Stop words count only if there is nothing
    else."""
    terms = list(dict.fromkeys(_terms(query[:MAX_QUERY_CHARS], _pairs)))
    return ([term for term in terms if term not in _STOP_TERMS] or terms)[:MAX_TERMS]


def without_stop_words(query: str) -> str:
    """The words of a query that carry its meaning, in order; the query itself if there are none. The end of a
    very long query has no effect on a search, and is left out."""
    query = query[:MAX_QUERY_CHARS]
    words = [word for word in query.split() if word.strip(_PUNCTUATION).lower() not in STOP_WORDS]
    return " ".join(words).strip(_PUNCTUATION) or query.strip()


def _pairs(run: str) -> list[str]:
    """Each two adjacent characters; a character alone is a term."""
    return [run[place : place + 2] for place in range(len(run) - 1)] if len(run) > 1 else [run]


def _plain(word: str) -> str:
    """In lower case, Latin letters without accents."""
    if word.isascii():
        return word.lower()
    lower = word.casefold()
    bare = "".join(
        letter for letter in unicodedata.normalize("NFD", lower) if letter < "\u0300" or letter > "\u036f"
    )
    return unicodedata.normalize("NFC", bare)


_PUNCTUATION = " \t\r\n.,;:!?\u3002\uff01\uff1f"
_STOP_TERMS = frozenset(stem(word) for word in STOP_WORDS)
