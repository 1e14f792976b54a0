"""Regular expressions, in the syntax that `llguidance` takes, which is Rust's. They were checked before:
what is not understood here is not wrong, it only cannot be said otherwise."""

import re

from antiphon.turn.grammars.classes import NAMED, POSIX, folded, negation, property_ranges
from antiphon.turn.grammars.parts import (
    LAST,
    NOTHING,
    Inexpressible,
    Part,
    Range,
    Repeat,
    Text,
    chars,
    choice,
    series,
)

_CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_ANCHORS = frozenset("Az")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xuU]\{([0-9a-fA-F]+)\}")
_PROPERTY = re.compile(r"p\{(\w+)\}|p([A-Z])")
_COUNTED = re.compile(r"\{(\d+)(,?)(\d*)\}")
_GROUP = re.compile(r"\(\?(?:P?<\w+>|(?P<flags>[a-zA-Z-]*)(?P<end>[:)]))")
_POSIX = re.compile(r"\[:(\w+):\]")
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_DEEPEST = 60

_Classes = dict[str, tuple[Range, ...]]


def regex_part(pattern: str, flags: str = "") -> Part:
    """The expression as parts; raises `Inexpressible`."""
    reader = _Reader(pattern)
    part = reader.alternatives(_flags(frozenset(), flags), 0)
    if not reader.over:
        raise Inexpressible("a bracket too many")
    return part


def any_case(text: str) -> Part:
    """A text in upper or lower case."""
    return series([_character(ord(character), frozenset("i")) for character in text])


def _flags(now: frozenset[str], changes: str) -> frozenset[str]:
    on, _, off = changes.partition("-")
    if set(on + off) - set("isumU"):
        raise Inexpressible(f"the flags '{changes}'")
    return (now | set(on)) - set(off)


def _character(code: int, flags: frozenset[str]) -> Part:
    if "i" in flags:
        ranges = folded(((code, code),), negated=False)
        return chars(ranges) if len(ranges) > 1 else Text(chr(code))
    return Text(chr(code))


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._place = 0

    @property
    def over(self) -> bool:
        return self._place >= len(self._pattern)

    def _next(self) -> str:
        return self._pattern[self._place : self._place + 1]

    def _take(self) -> str:
        if self.over:
            raise Inexpressible("an expression that ends too early")
        self._place += 1
        return self._pattern[self._place - 1]

    def _matched(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        match = expected.match(self._pattern, self._place)
        if match:
            self._place = match.end()
        return match

    def alternatives(self, flags: frozenset[str], depth: int) -> Part:
        """Everything up to the end of the group."""
        if depth > _DEEPEST:
            raise Inexpressible("brackets in brackets in brackets")
        options: list[Part] = []
        parts: list[Part] = []
        while not self.over and self._next() != ")":
            if self._next() == "|":
                self._take()
                options.append(series(parts))
                parts = []
            elif (group := self._matched(_GROUP)) and group["end"] == ")":
                flags = _flags(flags, group["flags"])  # from here on
            else:
                parts.append(self._repeated(self._atom(group, flags, depth)))
        return choice([*options, series(parts)])

    def _repeated(self, part: Part) -> Part:
        while not self.over:
            counted = self._matched(_COUNTED)
            if counted:
                least = int(counted[1])
                most = least if not counted[2] else int(counted[3]) if counted[3] else None
            elif self._next() in _QUANTIFIERS:
                least, most = _QUANTIFIERS[self._take()]
            else:
                break
            if self._next() == "?":
                self._take()  # how eagerly it is matched makes no other language of it
            part = Repeat(part, least, most)
        return part

    def _atom(self, group: re.Match[str] | None, flags: frozenset[str], depth: int) -> Part:
        if group or self._next() == "(":
            if group:
                flags = _flags(flags, group["flags"] or "")
            elif self._take() and self._next() == "?":
                raise Inexpressible("a group that looks around")
            inner = self.alternatives(flags, depth + 1)
            if self._take() != ")":
                raise Inexpressible("a group that is not closed")
            return inner
        sign = self._take()
        match sign:
            case ".":
                return chars([(0, LAST)] if "s" in flags else [(0, 9), (11, LAST)])
            case "[":
                return self._class(flags)
            case "^" | "$":
                return NOTHING  # where it could mean something, the grammar was refused
            case "\\":
                return self._escape(flags)
            case _:
                return _character(ord(sign), flags)

    def _escape(self, flags: frozenset[str]) -> Part:
        if self._next() in _ANCHORS:
            self._take()
            return NOTHING
        found = self._escaped()
        if isinstance(found, int):
            return _character(found, flags)
        return chars(found[1])

    def _escaped(self) -> int | tuple[str, tuple[Range, ...]]:
        """What a backslash begins: a character, or a class and its name."""
        code = self._matched(_HEX)
        if code:
            return int(next(filter(None, code.groups())), 16)
        named = self._matched(_PROPERTY)
        if named:
            name = named[1] or named[2]
            return "p", property_ranges(name)
        sign = self._take()
        if sign in NAMED:
            return sign, NAMED[sign]
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign.isalnum() or sign in "<>":
            raise Inexpressible(f"'\\{sign}'")
        return ord(sign)

    def _class(self, flags: frozenset[str]) -> Part:
        negated = self._next() == "^"
        if negated:
            self._take()
        ranges: list[Range] = []
        classes: _Classes = {}
        first = True
        while first or self._next() != "]":
            self._member(ranges, classes)
            first = False
        self._take()
        listed = folded(tuple(ranges), negated=negated) if "i" in flags else tuple(ranges)
        if negated:
            return chars(negation(listed, frozenset(classes)))
        return chars([*listed, *(member for members in classes.values() for member in members)])

    def _member(self, ranges: list[Range], classes: _Classes) -> None:
        """A character, a range, or a class in the class."""
        if self._pattern[self._place : self._place + 2] in ("&&", "--", "~~"):
            raise Inexpressible("operations on classes")
        posix = self._matched(_POSIX)
        if posix and posix[1] in POSIX:
            ranges += POSIX[posix[1]]
            return
        low = self._bound()
        if isinstance(low, tuple):
            classes[low[0]] = low[1]
            return
        high: int | tuple[str, tuple[Range, ...]] = low
        if self._next() == "-" and self._pattern[self._place + 1 : self._place + 2] not in ("]", "-", ""):
            self._take()
            high = self._bound()
        if isinstance(high, tuple) or high < low:
            raise Inexpressible("a range without an end")
        ranges.append((low, high))

    def _bound(self) -> int | tuple[str, tuple[Range, ...]]:
        sign = self._take()
        if sign == "[":
            raise Inexpressible("a class within a class")
        return self._escaped() if sign == "\\" else ord(sign)
