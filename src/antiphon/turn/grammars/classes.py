"""Classes of characters by name.

`\\w` and its kin mean thousands of ranges, more than an engine wants to look through for every character.
Here stand the scripts that most people write, and nothing that is not in the class: who is held to these
writes nothing that the expression does not take.
"""

from antiphon.turn.grammars.parts import Inexpressible, Range, others

LETTERS: tuple[Range, ...] = (
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x2C1),
    (0x391, 0x3A1), (0x3A3, 0x3CE), (0x400, 0x481), (0x48A, 0x52F), (0x5D0, 0x5EA),
    (0x620, 0x64A), (0x905, 0x939), (0xE01, 0xE30), (0x1E00, 0x1EFF),
    (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FEF), (0xAC00, 0xD7A3),
)  # fmt: skip
DIGITS: tuple[Range, ...] = ((0x30, 0x39),)
WORD: tuple[Range, ...] = (*LETTERS, *DIGITS, (0x5F, 0x5F))
SPACE: tuple[Range, ...] = (
    (0x9, 0xD), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
_SIGNS: tuple[Range, ...] = (
    (0x0, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60), (0x7B, 0xA9), (0xAB, 0xB1), (0xB4, 0xB4),
    (0xB6, 0xB8), (0xBB, 0xBB), (0xBF, 0xBF), (0xD7, 0xD7), (0xF7, 0xF7), (0x2010, 0x203E),
    (0x20A0, 0x20B9), (0x2190, 0x23FF), (0x2500, 0x26FF), (0x3001, 0x3003), (0x3008, 0x3011),
    (0xFF01, 0xFF0F), (0x1F300, 0x1F64F), (0x1F680, 0x1F6C5),
)  # fmt: skip
"""Neither letters nor digits nor marks."""

NAMED: dict[str, tuple[Range, ...]] = {
    "d": DIGITS,
    "D": (*_SIGNS, *LETTERS, (0x5F, 0x5F)),
    "w": WORD,
    "W": _SIGNS,
    "s": SPACE,
    "S": others(SPACE),
}
_OPPOSITES = {name: name.swapcase() for name in NAMED}
POSIX: dict[str, tuple[Range, ...]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "digit": DIGITS,
    "lower": ((0x61, 0x7A),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x9, 0xD), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_PROPERTIES = {"L": LETTERS, "Letter": LETTERS, "N": DIGITS, "Nd": DIGITS}
_KELVIN_AND_LONG_S = {"k": 0x212A, "s": 0x17F}
_MOST_FOLDED = 2000


def property_ranges(name: str) -> tuple[Range, ...]:
    """The characters with a Unicode property."""
    if name not in _PROPERTIES:
        raise Inexpressible(f"the property '{name}'")
    return _PROPERTIES[name]


def negation(listed: tuple[Range, ...], names: frozenset[str]) -> tuple[Range, ...]:
    """All characters but those that are listed, and those of the named classes.

    A class may have more members than its table here, so its opposite has a table of its own.
    """
    left = others(listed)
    for name in names:
        if name not in _OPPOSITES:
            raise Inexpressible("the opposite of a property")
        left = _both(left, NAMED[_OPPOSITES[name]])
    return left


def folded(ranges: tuple[Range, ...], *, negated: bool) -> tuple[Range, ...]:
    """The same in upper and lower case."""
    if sum(last - first + 1 for first, last in ranges) > _MOST_FOLDED:
        raise Inexpressible("upper and lower case of a large class")
    found = set[int]()
    for first, last in ranges:
        for code in range(first, last + 1):
            if negated and code > 127:
                raise Inexpressible("upper and lower case of a negated class")
            found |= {code, *_cases(chr(code))}
    return tuple((code, code) for code in sorted(found))


def _cases(character: str) -> list[int]:
    cases = [case for case in (character.lower(), character.upper()) if len(case) == 1]
    more = _KELVIN_AND_LONG_S.get(character.lower())
    return [*map(ord, cases), *([] if more is None else [more])]


def _both(one: tuple[Range, ...], other: tuple[Range, ...]) -> tuple[Range, ...]:
    """What is in both."""
    return tuple(
        (max(first, start), min(last, end))
        for first, last in one
        for start, end in other
        if max(first, start) <= min(last, end)
    )
