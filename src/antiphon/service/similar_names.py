"""Which of the known names is most like a name that is not known.

Two names are as similar as the share of character pairs that they have in common, of all that either has;
case, dots and dashes do not count.
"""

from collections.abc import Iterable

LEAST = 0.3
"""Names that are less similar than this have nothing to do with each other."""


def most_similar(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, the first of several; None if none is similar."""
    best = max(known, key=lambda other: similarity(name, other), default=None)
    return best if best is not None and similarity(name, best) >= LEAST else None


def similarity(one: str, other: str) -> float:
    """From 0, nothing in common, to 1."""
    ours, theirs = _pairs(one), _pairs(other)
    either = ours | theirs
    return len(ours & theirs) / len(either) if either else 0.0


def _pairs(name: str) -> set[str]:
    letters = "".join(letter for letter in name.lower() if letter.isascii() and letter.isalnum())
    return {letters[place : place + 2] for place in range(len(letters) - 1)}
