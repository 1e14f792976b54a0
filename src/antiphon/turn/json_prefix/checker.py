"""Checks a JSON text piece by piece against a schema, and finds the first character that excludes it.

A fault is found where it is certain, however the text was cut into pieces: the wrong type of a value at its
first character, an unknown member at the end of its name, a missing one at the end of its object, a wrong
number behind its last digit. Every value of a repeated member must fit, although readers take the last one.

Each character is read once. What is kept: the open objects and arrays, the names of their members if they
are counted, and the current name, number, or string of an `enum`.
"""

import re
from collections.abc import Callable
from typing import assert_never

import msgspec

from antiphon.protocol.content import JsonObject
from antiphon.turn.json_answer import render_path, shorten
from antiphon.turn.json_prefix.faults import FaultFound, PrefixFault, Undecided, unexpected
from antiphon.turn.json_prefix.rules import (
    ArrayRule,
    Kind,
    LiteralRule,
    NumberRule,
    ObjectRule,
    Rule,
    SchemaRules,
    Schemas,
    StringRule,
)
from antiphon.turn.json_prefix.strings import StringReader

MAX_DEPTH = 500
"""Of objects and arrays. A deeper text is left to the check at the end."""
MAX_NUMBER_CHARACTERS = 32
"""A longer number is only checked for its syntax."""

_SPACES = frozenset(" \t\n\r")
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER_RUN = re.compile(r"[0-9+\-.eE]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_KINDS: dict[str, Kind] = {
    "{": "object",
    "[": "array",
    '"': "string",
    "t": "boolean",
    "f": "boolean",
    "n": "null",
    **dict.fromkeys("-0123456789", "number"),
}
"""By the first character of a value."""
_LITERALS: dict[str, tuple[str, object]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_ARTICLES: dict[Kind, str] = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "number": "a number",
    "boolean": "a boolean",
    "null": "null",
}
_ANY_NAME = StringRule(())


class _Open:
    """An open object or array."""

    __slots__ = ("count", "names", "rule", "step", "value")

    def __init__(self, rule: ObjectRule | ArrayRule) -> None:
        self.rule = rule
        self.count = 0
        """Of the elements of an array that have begun."""
        self.names = set[str]()
        """Of the members of an object, if they are counted."""
        self.step: str | int | None = None
        """The name or index of the current value."""
        self.value: Schemas = ()
        """The schemas of the current value."""


class JsonPrefixCheck:
    """The check of one text."""

    def __init__(self, schema: JsonObject) -> None:
        self._rules = SchemaRules(schema)
        self._open: list[_Open] = []
        self._offset = 0
        self._read: _Read = JsonPrefixCheck._value
        self._string = StringReader()
        self._pieces: list[str] = []
        """Of the current number."""
        self._number = NumberRule(())
        self._literal = ""
        """The rest of the current literal."""

    @property
    def is_complete(self) -> bool:
        """Whether the text so far is a JSON document that fits, as far as that is checked here."""
        return self._read is JsonPrefixCheck._end

    def feed(self, text: str) -> PrefixFault | None:
        """Read the next piece; the first fault, if it is in this piece. Raises `Undecided`. Nothing can be
        fed after either of them."""
        position, end = 0, len(text)
        try:
            while position < end:
                position = self._read(self, text, position)
        except FaultFound as found:
            path = render_path([each.step for each in self._open if each.step is not None])
            where = "The answer is not JSON" if found.is_syntax else f"At '{path}'" if path else "The answer"
            what = shorten(f"{where}: {found.why}")
            return PrefixFault(f"{what}.", self._offset + found.after, found.is_syntax)
        self._offset += end
        return None

    def _value(self, text: str, position: int) -> int:
        position = _after_space(text, position)
        if position == len(text):
            return position
        first, after = text[position], position + 1
        kind = _KINDS.get(first)
        if kind is None:
            raise unexpected(text, position)
        rule = self._rule(kind, after)
        match rule:
            case StringRule():
                self._string.begin(rule, collects=rule.choices is not None)
                self._read = JsonPrefixCheck._in_string
            case ObjectRule() | ArrayRule():
                self._begin_container(rule)
            case NumberRule():
                self._number = rule
                self._pieces = [first]
                self._read = JsonPrefixCheck._in_number
            case LiteralRule():
                self._begin_literal(rule, first, after)
            case _:
                assert_never(rule)
        return after

    def _rule(self, kind: Kind, after: int) -> Rule:
        """The rule of the value that begins here."""
        schemas = self._open[-1].value if self._open else self._rules.root
        rule = self._rules.rule(schemas, kind)
        if rule is None:
            types = self._rules.allowed_types(schemas)
            expected = f", it must be of type {' or '.join(map(repr, types))}" if types else ""
            raise FaultFound(after, f"{_ARTICLES[kind]} is not allowed{expected}")
        return rule

    def _value_ended(self) -> None:
        self._read = JsonPrefixCheck._after_value if self._open else JsonPrefixCheck._end

    def _after_value(self, text: str, position: int) -> int:
        position = _after_space(text, position)
        if position == len(text):
            return position
        after = position + 1
        if text[position] != ",":
            self._close(text, position)
        elif isinstance(self._open[-1].rule, ObjectRule):
            self._read = JsonPrefixCheck._name
        else:
            self._begin_element(after)
        return after

    def _end(self, text: str, position: int) -> int:
        position = _after_space(text, position)
        if position < len(text):
            raise FaultFound(position + 1, "text follows the value", is_syntax=True)
        return position

    def _begin_container(self, rule: ObjectRule | ArrayRule) -> None:
        if len(self._open) == MAX_DEPTH:
            raise Undecided
        self._open.append(_Open(rule))
        is_object = isinstance(rule, ObjectRule)
        self._read = JsonPrefixCheck._first_name if is_object else JsonPrefixCheck._first_element

    def _close(self, text: str, position: int) -> None:
        """The end of the innermost object or array."""
        closed = self._open[-1]
        if text[position] != ("}" if isinstance(closed.rule, ObjectRule) else "]"):
            raise unexpected(text, position)
        closed.step = None
        why = _fault_at_end(closed)
        if why is not None:
            raise FaultFound(position + 1, why)
        self._open.pop()
        self._value_ended()

    def _first_element(self, text: str, position: int) -> int:
        position = _after_space(text, position)
        if position == len(text):
            return position
        if text[position] == "]":
            self._close(text, position)
            return position + 1
        self._begin_element(position + 1)
        return position

    def _begin_element(self, after: int) -> None:
        array = self._open[-1]
        assert isinstance(array.rule, ArrayRule)
        if array.count == array.rule.max_items:
            array.step = None
            raise FaultFound(after, f"the array has more than {array.count} elements")
        array.step, array.value = array.count, array.rule.element(array.count)
        array.count += 1
        self._read = JsonPrefixCheck._value

    def _first_name(self, text: str, position: int) -> int:
        position = _after_space(text, position)
        if position < len(text) and text[position] == "}":
            self._close(text, position)
            return position + 1
        return self._name(text, position)

    def _name(self, text: str, position: int) -> int:
        position = _after_space(text, position)
        if position == len(text):
            return position
        if text[position] != '"':
            raise unexpected(text, position)
        rule = self._open[-1].rule
        self._string.begin(_ANY_NAME, collects=isinstance(rule, ObjectRule) and rule.needs_names)
        self._read = JsonPrefixCheck._in_name
        return position + 1

    def _in_name(self, text: str, position: int) -> int:
        position = self._string.read(text, position)
        if self._string.ended:
            self._name_ended(self._open[-1], position)
            self._read = JsonPrefixCheck._colon
        return position

    def _name_ended(self, member: _Open, after: int) -> None:
        rule = member.rule
        assert isinstance(rule, ObjectRule)
        if not rule.needs_names:
            return
        name = self._string.decoded()
        member.step = None
        value = rule.member(name)
        if value is None:
            raise FaultFound(after, f"the member {name!r} is not allowed")
        if rule.counts:
            member.names.add(name)
            if rule.max_properties is not None and len(member.names) > rule.max_properties:
                raise FaultFound(after, f"the object has more than {rule.max_properties} members")
        member.step, member.value = name, value

    def _colon(self, text: str, position: int) -> int:
        position = _after_space(text, position)
        if position == len(text):
            return position
        if text[position] != ":":
            raise unexpected(text, position)
        self._read = JsonPrefixCheck._value
        return position + 1

    def _in_string(self, text: str, position: int) -> int:
        position = self._string.read(text, position)
        if self._string.ended:
            self._value_ended()
        return position

    def _in_number(self, text: str, position: int) -> int:
        match = _NUMBER_RUN.match(text, position)
        end = position if match is None else match.end()
        if end > position:
            self._pieces.append(text[position:end])
        if end < len(text):
            number = "".join(self._pieces)
            self._check_number(number, end + 1)
            self._value_ended()
        return end

    def _check_number(self, number: str, after: int) -> None:
        if _NUMBER.fullmatch(number) is None:
            raise FaultFound(after, f"invalid number '{number}'", is_syntax=True)
        if self._number.is_free or len(number) > MAX_NUMBER_CHARACTERS:
            return
        try:
            value = msgspec.json.decode(number, type=int | float)
        except msgspec.MsgspecError:  # out of range
            return
        why = self._number.fault(value)
        if why is not None:
            raise FaultFound(after, why)

    def _begin_literal(self, rule: LiteralRule, first: str, after: int) -> None:
        written, value = _LITERALS[first]
        if rule.choices is not None and value not in rule.choices:
            raise FaultFound(after, f"{written} is none of the allowed values")
        self._literal = written[1:]
        self._read = JsonPrefixCheck._in_literal

    def _in_literal(self, text: str, position: int) -> int:
        if text[position] != self._literal[0]:
            raise unexpected(text, position)
        self._literal = self._literal[1:]
        if not self._literal:
            self._value_ended()
        return position + 1


_Read = Callable[[JsonPrefixCheck, str, int], int]
"""Reads from a position of a piece, and returns the position behind what it has read."""


def _after_space(text: str, position: int) -> int:
    if position < len(text) and text[position] not in _SPACES:
        return position
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _fault_at_end(closed: _Open) -> str | None:
    """Why an object or an array must not end here."""
    rule = closed.rule
    if isinstance(rule, ArrayRule):
        fewest = rule.min_items
        return (
            None
            if fewest is None or closed.count >= fewest
            else f"the array has fewer than {fewest} elements"
        )
    if len(closed.names) < len(rule.required) or not rule.required <= closed.names:
        missing = next(name for name in sorted(rule.required) if name not in closed.names)
        return f"the member {missing!r} is missing"
    fewest = rule.min_properties
    if fewest is not None and len(closed.names) < fewest:
        return f"the object has fewer than {fewest} members"
    return None
