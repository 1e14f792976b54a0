"""Reads GBNF and says whether a text follows it: all the ends that a rule can have, from every place.

Written by the grammar of llama.cpp's notation, and not by the code under test.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache

Ends = Callable[[str, int], frozenset[int]]
"""From a text and a place in it, where a part can end."""

_RULE = re.compile(r"^([a-zA-Z0-9-]+) ::= (.*)$", re.MULTILINE)
_COUNT = re.compile(r"\{(\d+),(\d*)\}")
_HEX = {"x": 2, "u": 4, "U": 8}
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]"}


def follows(gbnf: str, text: str) -> bool:
    """Whether the whole text follows the grammar."""
    rules = dict[str, Ends]()
    for name, body in _RULE.findall(gbnf):
        rules[name] = _Reader(body, rules).whole()
    assert len(rules) == len(gbnf.strip().split("\n")), "a line that is no rule"
    return len(text) in rules["root"](text, 0)


class _Reader:
    def __init__(self, body: str, rules: dict[str, Ends]) -> None:
        self.body, self.place, self.rules = body, 0, rules

    def whole(self) -> Ends:
        ends = self.choice()
        assert self.place == len(self.body), self.body[self.place :]
        return cache(ends)

    def peek(self) -> str:
        return self.body[self.place : self.place + 1]

    def take(self) -> str:
        self.place += 1
        return self.body[self.place - 1]

    def choice(self) -> Ends:
        options = [self.series()]
        while self.peek() == "|":
            self.take()
            options.append(self.series())
        return lambda text, place: frozenset(end for option in options for end in option(text, place))

    def series(self) -> Ends:
        parts: list[Ends] = []
        while True:
            while self.peek() == " ":
                self.take()
            if self.peek() in ("", "|", ")"):
                return lambda text, place: _along(parts, text, place)
            parts.append(self.counted(self.atom()))

    def atom(self) -> Ends:
        sign = self.take()
        if sign == '"':
            literal = "".join(self.characters('"'))
            return lambda text, place: frozenset(
                {place + len(literal)} if text.startswith(literal, place) else ()
            )
        if sign == "(":
            inner = self.choice()
            assert self.take() == ")"
            return inner
        if sign == "[":
            return self.klass()
        name = sign
        while re.match("[a-zA-Z0-9-]", self.peek()):
            name += self.take()
        assert re.fullmatch("[a-zA-Z0-9-]+", name), name

        def ends(text: str, place: int) -> frozenset[int]:
            return self.rules[name](text, place)  # which may be read later than this one

        return ends

    def characters(self, closing: str) -> Iterator[str]:
        while (sign := self.take()) != closing:
            yield self.escaped() if sign == "\\" else sign

    def escaped(self) -> str:
        kind = self.take()
        if kind in _PLAIN:
            return _PLAIN[kind]
        digits = "".join(self.take() for _ in range(_HEX[kind]))
        return chr(int(digits, 16))

    def klass(self) -> Ends:
        negated = self.peek() == "^"
        if negated:
            self.take()
        ranges: list[tuple[str, str]] = []
        while self.peek() != "]":
            sign = self.take()
            low = self.escaped() if sign == "\\" else sign
            high = low
            if self.peek() == "-":
                self.take()
                sign = self.take()
                high = self.escaped() if sign == "\\" else sign
            ranges.append((low, high))
        self.take()

        def ends(text: str, place: int) -> frozenset[int]:
            if place >= len(text):
                return frozenset()
            inside = any(low <= text[place] <= high for low, high in ranges)
            return frozenset({place + 1} if inside != negated else ())

        return ends

    def counted(self, part: Ends) -> Ends:
        counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        match = _COUNT.match(self.body, self.place)
        if match:
            self.place = match.end()
            least, most = int(match[1]), int(match[2]) if match[2] else None
        elif self.peek() in counts and self.peek():
            least, most = counts[self.take()]
        else:
            return part
        assert self.peek() not in ("*", "+", "?"), "two counts without brackets"
        return lambda text, place: _often(part, text, place, least, most)


def _along(parts: list[Ends], text: str, place: int) -> frozenset[int]:
    places = frozenset({place})
    for part in parts:
        places = frozenset(end for start in places for end in part(text, start))
    return places


def _often(part: Ends, text: str, place: int, least: int, most: int | None) -> frozenset[int]:
    found = set[int]()
    places, count = frozenset({place}), 0
    while places and (most is None or count <= most):
        if count >= least:
            if places <= found:
                break
            found |= places
        places = frozenset(end for start in places for end in part(text, start))
        count += 1
    return frozenset(found)
