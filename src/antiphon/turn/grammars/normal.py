"""Rules in the form that engines take which read from left to right.

- What is repeated is never nothing.
- No rule begins with itself: `sum: sum "+" term | term` becomes `sum: term ("+" term)*`.
- What the grammar ignores stands before every word but the first, as `llguidance` has it.
"""

from collections.abc import Iterator

from antiphon.turn.grammars.lark import START, LarkRules
from antiphon.turn.grammars.parts import (
    NOTHING,
    Chars,
    Choice,
    Inexpressible,
    Part,
    Ref,
    Repeat,
    Series,
    Spaced,
    Text,
    choice,
    repeat,
    series,
)

_IGNORED = "+ignored"
_FILLED = "+filled"
"""The name of what a rule stands for, but never nothing. No name of a grammar has a plus."""
_FIRST = "+first"
"""The name of a rule at the very beginning, where nothing is ignored."""
_MOST_RULES = 5000
_LONGEST_SERIES = 200


def normal_rules(grammar: LarkRules) -> tuple[str, dict[str, Part]]:
    """The rule to begin with, and all that it needs."""
    normal = _Normal(grammar)
    root = START if grammar.ignored is None else START + _FIRST
    rules: dict[str, Part] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in rules:
            continue
        if len(rules) >= _MOST_RULES:
            raise Inexpressible("too many rules")
        rules[name] = normal.rule(name)
        waiting += _refs(rules[name])
    _refuse_left_recursion(rules, normal)
    return root, rules


class _Normal:
    """Makes rules normal, one by one, as they are needed."""

    def __init__(self, grammar: LarkRules) -> None:
        self._rules = dict(grammar.rules)
        if grammar.ignored is not None:
            self._rules[_IGNORED] = grammar.ignored
        self._spaces = grammar.ignored is not None
        self._nullable = self._nullable_rules()
        self._bodies: dict[str, Part] = {}

    def rule(self, name: str) -> Part:
        """What a rule, or a variant of one, stands for."""
        return self._spaced(_without_left_recursion(name, self._body(name), self))

    def nullable(self, part: Part) -> bool:
        """Whether a part may be nothing."""
        match part:
            case Text():
                return not part.text
            case Chars():
                return False
            case Ref():
                return not part.name.endswith((_FILLED, _FILLED + _FIRST)) and (
                    part.name.removesuffix(_FIRST) in self._nullable
                )
            case Series():
                return all(map(self.nullable, part.parts))
            case Choice():
                return any(map(self.nullable, part.options))
            case Repeat():
                return part.least == 0 or self.nullable(part.part)
            case Spaced():
                return self.nullable(part.part)

    def repeated(self, part: Part, least: int, most: int | None) -> Part:
        """A repetition of what is never nothing."""
        if most is not None and most < least:
            raise Inexpressible("a repetition that cannot be")
        if most == 0:
            return NOTHING
        if self.nullable(part):
            filled = self._filled(part)
            return NOTHING if filled is None else repeat(filled, 0, most)
        return repeat(part, least, most)

    def _nullable_rules(self) -> set[str]:
        self._nullable = found = set[str]()
        while True:
            new = {name for name, part in self._rules.items() if name not in found and self.nullable(part)}
            if not new:
                return found
            found |= new

    def _body(self, name: str) -> Part:
        if name not in self._bodies:
            self._bodies[name] = self._made(name)
        return self._bodies[name]

    def _made(self, name: str) -> Part:
        if name.endswith(_FIRST):
            return self._first(self._body(name.removesuffix(_FIRST)))
        if name.endswith(_FILLED):
            filled = self._filled(self._body(name.removesuffix(_FILLED)))
            if filled is None:
                raise Inexpressible("a rule that stands for nothing")
            return filled
        if name not in self._rules:
            raise Inexpressible(f"the unknown name '{name}'")
        return self._tidy(self._rules[name])

    def _tidy(self, part: Part) -> Part:
        match part:
            case Series():
                return series([self._tidy(member) for member in part.parts])
            case Choice():
                return choice([self._tidy(option) for option in part.options])
            case Repeat():
                return self.repeated(self._tidy(part.part), part.least, part.most)
            case Spaced():
                return Spaced(self._tidy(part.part))
            case _:
                return part

    def _filled(self, part: Part) -> Part | None:
        """The same without nothing; None if that is all it can be."""
        if not self.nullable(part):
            return part
        match part:
            case Ref():
                return Ref(part.name + _FILLED)
            case Series():
                return _one_of(self._filled_series(part))
            case Choice():
                return _one_of(filled for option in part.options if (filled := self._filled(option)))
            case Repeat():
                inner = self._filled(part.part)
                return None if inner is None or part.most == 0 else repeat(inner, 1, part.most)
            case Spaced():
                inner = self._filled(part.part)
                return None if inner is None else Spaced(inner)
            case _:
                return None

    def _filled_series(self, part: Series) -> Iterator[Part]:
        """By the first member that is not nothing."""
        if len(part.parts) > _LONGEST_SERIES:
            raise Inexpressible("a long series of what may be nothing")
        for index, member in enumerate(part.parts):
            filled = self._filled(member)
            if filled is not None:
                yield series([filled, *part.parts[index + 1 :]])

    def _first(self, part: Part) -> Part:
        """The same at the very beginning: before its first word nothing is ignored."""
        match part:
            case Spaced():
                return part.part
            case Ref():
                return Ref(part.name + _FIRST)
            case Choice():
                return choice([self._first(option) for option in part.options])
            case Repeat():
                most = None if part.most is None else part.most - 1
                again = self.repeated(part.part, max(part.least - 1, 0), most)
                once = series([self._first(part.part), again])
                return choice([once, NOTHING]) if part.least == 0 else once
            case Series():
                return self._first_series(part)
            case _:
                return part

    def _first_series(self, part: Series) -> Part:
        head, rest = part.parts[0], part.parts[1:]
        if not self.nullable(head):
            return series([self._first(head), *rest])
        filled = self._filled(head)
        options = [] if filled is None else [series([self._first(filled), *rest])]
        return choice([*options, self._first(series(rest))])

    def _spaced(self, part: Part) -> Part:
        """With the ignored text before its words."""
        match part:
            case Spaced():
                return series([Ref(_IGNORED), part.part]) if self._spaces else part.part
            case Series():
                return series([self._spaced(member) for member in part.parts])
            case Choice():
                return choice([self._spaced(option) for option in part.options])
            case Repeat():
                return Repeat(self._spaced(part.part), part.least, part.most)
            case _:
                return part


def _one_of(options: Iterator[Part]) -> Part | None:
    found = list(options)
    return choice(found) if found else None


def _without_left_recursion(name: str, part: Part, normal: _Normal) -> Part:
    """`a: a x | b` as `a: b x*`."""
    options = part.options if isinstance(part, Choice) else (part,)
    recursive = [option for option in options if _head(option) == Ref(name)]
    if not recursive:
        return part
    bases = [option for option in options if _head(option) != Ref(name)]
    if not bases:
        raise Inexpressible("a rule without an end")
    tails = [series(option.parts[1:]) for option in recursive if isinstance(option, Series)]
    if not tails:
        return choice(bases)
    return series([choice(bases), normal.repeated(choice(tails), 0, None)])


def _head(part: Part) -> Part:
    return part.parts[0] if isinstance(part, Series) else part


def _refs(part: Part) -> list[str]:
    match part:
        case Ref():
            return [part.name]
        case Series():
            return [name for member in part.parts for name in _refs(member)]
        case Choice():
            return [name for option in part.options for name in _refs(option)]
        case Repeat() | Spaced():
            return _refs(part.part)
        case _:
            return []


def _beginnings(part: Part, normal: _Normal) -> list[str]:
    """The rules that a part may begin with."""
    match part:
        case Series():
            found: list[str] = []
            for member in part.parts:
                found += _beginnings(member, normal)
                if not normal.nullable(member):
                    break
            return found
        case Choice():
            return [name for option in part.options for name in _beginnings(option, normal)]
        case Repeat() | Spaced():
            return _beginnings(part.part, normal)
        case Ref():
            return [part.name]
        case _:
            return []


def _refuse_left_recursion(rules: dict[str, Part], normal: _Normal) -> None:
    """A rule that begins with itself by way of another one stays as it is, and so cannot be said."""
    begins = {name: set(_beginnings(part, normal)) for name, part in rules.items()}
    while True:
        ready = {name for name, firsts in begins.items() if not firsts & begins.keys()}
        if not ready:
            break
        for name in ready:
            del begins[name]
    if begins:
        raise Inexpressible("a rule that begins with itself")
