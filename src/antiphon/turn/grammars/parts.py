"""What a grammar is made of, whatever it was written in."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)

Range = tuple[int, int]


class Inexpressible(Exception):
    """Something that GBNF has no words for."""


class Chars(Struct, frozen=True):
    """One character of these ranges, which are in order and do not touch."""

    ranges: tuple[Range, ...]


class Text(Struct, frozen=True):
    """These characters. None of them: nothing."""

    text: str


class Ref(Struct, frozen=True):
    """What the rule of this name stands for."""

    name: str


class Series(Struct, frozen=True):
    """One after another."""

    parts: tuple["Part", ...]


class Choice(Struct, frozen=True):
    """One of these."""

    options: tuple["Part", ...]


class Repeat(Struct, frozen=True):
    """So many times; no `most`: as often as you like."""

    part: "Part"
    least: int = 0
    most: int | None = None


class Spaced(Struct, frozen=True):
    """A word of the grammar; before it, unless it is the first, may stand what the grammar ignores."""

    part: "Part"


Part = Chars | Text | Ref | Series | Choice | Repeat | Spaced

NOTHING = Text("")


def chars(ranges: Iterable[Range]) -> Chars:
    """A class of characters, in order. Surrogates are no characters."""
    merged: list[Range] = []
    for first, last in sorted(_without_surrogates(ranges)):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    if not merged:
        raise Inexpressible("a class that no character belongs to")
    return Chars(tuple(merged))


def others(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """All characters but these."""
    left: list[Range] = []
    start = 0
    for first, last in sorted(ranges):
        if first > start:
            left.append((start, first - 1))
        start = max(start, last + 1)
    if start <= LAST:
        left.append((start, LAST))
    return tuple(_without_surrogates(left))


def series(parts: Sequence[Part]) -> Part:
    """One after another, without a wrapper around one; texts that follow each other are one text."""
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, Text) and kept and isinstance(kept[-1], Text):
            kept[-1] = Text(kept[-1].text + part.text)
        elif part != NOTHING:
            kept.append(part)
    if not kept:
        return NOTHING
    return kept[0] if len(kept) == 1 else Series(tuple(kept))


def repeat(part: Part, least: int, most: int | None) -> Part:
    """So many times, without a wrapper around once."""
    return part if least == most == 1 else Repeat(part, least, most)


def choice(options: Sequence[Part]) -> Part:
    """One of these, each said once."""
    kept = tuple(dict.fromkeys(options))
    return kept[0] if len(kept) == 1 else Choice(kept)


def _without_surrogates(ranges: Iterable[Range]) -> list[Range]:
    low, high = _SURROGATES
    kept: list[Range] = []
    for first, last in ranges:
        if last < low or first > high:
            kept.append((first, last))
            continue
        if first < low:
            kept.append((first, low - 1))
        if last > high:
            kept.append((high + 1, last))
    return kept
