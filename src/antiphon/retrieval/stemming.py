"""Stems of English words, by Porter's algorithm (1980): `connected` and `connections` both give `connect`.

A stem need not be a word. A word of another language loses an English ending at most, in texts and in queries
alike.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

MAX_STEMS_CACHED = 50_000
MIN_STEMMED_LETTERS = 3
"""Shorter words are their own stems."""

_STEP_2: Mapping[str, str] = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3: Mapping[str, str] = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
_STEP_4: Mapping[str, str] = dict.fromkeys(
    (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou"),
        *("ism", "ate", "iti", "ous", "ive", "ize"),
    ),
    "",
)


@lru_cache(maxsize=MAX_STEMS_CACHED)
def stem(word: str) -> str:
    """The stem of a word in lower case."""
    if len(word) < MIN_STEMMED_LETTERS or not word.isascii() or not word.isalpha():
        return word
    word = _without_verb_ending(_without_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = f"{word[:-1]}i"
    word = _replaced(word, _STEP_2, 0)
    word = _replaced(word, _STEP_3, 0)
    word = _replaced(word, _STEP_4, 1)
    return _without_last_letter(word)


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_verb_ending(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        bare = word.removesuffix(ending)
        if bare != word:
            return _completed(bare) if _has_vowel(bare) else word
    return word


def _completed(bare: str) -> str:
    """What the word was before `ed` or `ing`: `hop`, `hope`, `conflate`."""
    if bare.endswith(("at", "bl", "iz")):
        return f"{bare}e"
    if len(bare) > 1 and bare[-1] == bare[-2] and not _is_vowel(bare, len(bare) - 1):
        return bare if bare[-1] in "lsz" else bare[:-1]
    return f"{bare}e" if _measure(bare) == 1 and _is_short(bare) else bare


def _replaced(word: str, endings: Mapping[str, str], least: int) -> str:
    """Replace the longest of these endings, if what stays has a measure above `least`."""
    found = max((ending for ending in endings if word.endswith(ending)), key=len, default=None)
    if found is None:
        return word
    bare = word[: len(word) - len(found)]
    if _measure(bare) <= least or (found == "ion" and not bare.endswith(("s", "t"))):
        return word
    return bare + endings[found]


def _without_last_letter(word: str) -> str:
    if word.endswith("e"):
        bare = word[:-1]
        measure = _measure(bare)
        if measure > 1 or (measure == 1 and not _is_short(bare)):
            word = bare
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _is_vowel(word: str, place: int) -> bool:
    letter = word[place]
    return letter in "aeiou" or (letter == "y" and place > 0 and not _is_vowel(word, place - 1))


def _has_vowel(word: str) -> bool:
    return any(_is_vowel(word, place) for place in range(len(word)))


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    kinds = [_is_vowel(word, place) for place in range(len(word))]
    return sum(one and not other for one, other in pairwise(kinds))


def _is_short(word: str) -> bool:
    """Whether it ends in consonant, vowel, consonant, and the last one is none of `w`, `x` and `y`."""
    end = len(word) - 1
    return (
        end > 1
        and not _is_vowel(word, end)
        and _is_vowel(word, end - 1)
        and not _is_vowel(word, end - 2)
        and word[end] not in "wxy"
    )
