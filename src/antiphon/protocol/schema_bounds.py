"""Bounds of JSON Schemas. A small schema can be expensive to check: each `anyOf` of two references doubles
the work, and a counted repetition in a pattern is compiled into as many copies.

`schema_cost` follows the schema as a checker would, from value to member to element, and counts how many
subschemas apply to one value. The count grows with every alternative; it repeats in a recursive schema that
is harmless, and has no end in one that is not.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, cast
from urllib.parse import unquote

import msgspec

from antiphon.protocol.content import JsonObject

MAX_SCHEMA_BYTES = 512 * 1024
MAX_CHECKS_PER_VALUE = 1000
"""How many subschemas may apply to one value."""
MAX_STEPS = 60_000
"""Of this analysis itself."""
MAX_PATTERNS = 200
MAX_PATTERN_CHARACTERS = 8192
MAX_PATTERN_COPIES = 5000
"""Characters and classes of all patterns of a schema, each as often as its counted repetitions copy it."""

_WALKED_BYTES_PER_STEP = 100
_TOO_MANY = "it has too many subschemas; use fewer alternatives and references"
_EXPENSIVE = re.compile(
    rb'"(?:\$ref|\$dynamicRef|\$recursiveRef|anyOf|oneOf|allOf|not|if|then|else|dependentSchemas|dependencies'
    rb'|pattern|patternProperties|contains)"'
)
_PATTERN_PART = re.compile(
    r"(?P<repetition>\{(?P<least>\d*)(?:,(?P<most>\d*))?\})|(?P<open>\()|(?P<close>\))"
    r"|\\[pP]\{[^}]{0,64}\}|\\.|\[(?:\\.|[^\]\\])*\]?|.",
    re.DOTALL,
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("not", "if", "then", "else")
_ANY_MEMBER = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_IN_PLACE = frozenset((*_REFERENCES, *_ALTERNATIVES, *_CONDITIONS, "dependentSchemas", "dependencies"))
_ELEMENTS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_CONTAINERS = frozenset(("properties", "patternProperties", *_ANY_MEMBER, *_ELEMENTS))

Counts = Counter[int]
"""How often each subschema, by its identity, applies to one value."""


class SchemaCost(NamedTuple):
    """What a schema costs whoever compiles it, and whoever checks values with it."""

    checks_per_value: int = 1
    """How many of its subschemas apply to one value at most."""
    pattern_copies: int = 0
    steps: int = 0
    """Of the analysis that found this out."""


_CHEAP = SchemaCost()


class TooComplex(Exception):
    """The bound that a schema exceeds, as a part of a sentence."""


class TooManySteps(TooComplex):
    """The analysis has not ended within its steps."""


def schema_cost(encoded: bytes, max_steps: int = MAX_STEPS) -> SchemaCost:
    """The cost of an encoded schema. Raises `TooComplex` for one that exceeds a bound."""
    if _EXPENSIVE.search(encoded) is None:
        return _CHEAP
    walk = len(encoded) // _WALKED_BYTES_PER_STEP
    if walk > max_steps:
        raise TooManySteps(_TOO_MANY)
    schema = msgspec.json.decode(encoded)
    copies = _pattern_copies(schema)
    analysis = _Analysis(schema, walk, max_steps)
    analysis.run()
    return SchemaCost(analysis.most_checks, copies, analysis.steps)


class _Analysis:
    def __init__(self, schema: JsonObject, steps: int, max_steps: int) -> None:
        self._root = schema
        self._max_steps = max_steps
        self._nodes: dict[int, JsonObject] = {}
        self._targets: dict[str, JsonObject | None] = {**_named(schema)}
        """The schemas of references."""
        self.steps = steps
        self.most_checks = 1

    def run(self) -> None:
        """Follow every kind of value that the schema describes, each once. Raises `TooComplex`."""
        waiting, applied = [[self._root]], set[tuple[int, ...]]()
        seen = set[frozenset[tuple[int, int]]]()
        while waiting:
            schemas = waiting.pop()
            identities = tuple(map(self._identity, schemas))
            if identities in applied:  # the same schemas apply to another member
                continue
            applied.add(identities)
            counts = self._expanded(schemas)
            key = frozenset(counts.items())
            if counts and key not in seen:
                seen.add(key)
                waiting += filter(None, self._members(counts).values())

    def _identity(self, schema: JsonObject) -> int:
        """Equal for all plain references to one schema."""
        target = self._resolved(schema["$ref"]) if len(schema) == 1 and "$ref" in schema else None
        return id(schema if target is None else target)

    def _expanded(self, applied: list[JsonObject]) -> Counts:
        """What applies to a value to which these schemas apply: themselves, and what they apply in place.
        Only schemas that describe members or elements are returned."""
        counts, checks, waiting = Counts(), 0, self._counted((schema, 1) for schema in applied)
        while waiting:
            number = waiting.total()
            checks += number
            if checks > MAX_CHECKS_PER_VALUE:
                raise TooComplex(
                    f"more than {MAX_CHECKS_PER_VALUE} of its subschemas apply to one value; "
                    "use fewer alternatives and references"
                )
            self._step(number)
            for identity, count in waiting.items():
                if not _CONTAINERS.isdisjoint(self._nodes[identity]):
                    counts[identity] += count
            waiting = self._counted(self._all_in_place(waiting))
        self.most_checks = max(self.most_checks, checks)
        return counts

    def _counted(self, applied: Iterable[tuple[JsonObject, int]]) -> Counts:
        """How often each of these schemas applies; one more than allowed in all is enough. A schema that
        applies several times is followed once: two references to the next one would double the work."""
        counts, number = Counts(), 0
        for schema, count in applied:
            self._nodes[id(schema)] = schema
            counts[id(schema)] += count
            number += count
            if number > MAX_CHECKS_PER_VALUE:
                break
        return counts

    def _all_in_place(self, applied: Counts) -> Iterator[tuple[JsonObject, int]]:
        for identity, count in applied.items():
            for schema in self._in_place(self._nodes[identity]):
                yield schema, count

    def _in_place(self, schema: JsonObject) -> Iterator[JsonObject]:
        if _IN_PLACE.isdisjoint(schema):
            return
        for name in _REFERENCES:
            target = self._resolved(schema.get(name))
            if target is not None:
                yield target
        for name in _ALTERNATIVES:
            yield from _schemas(schema.get(name))
        for name in _CONDITIONS:
            yield from _schemas([schema.get(name)])
        for name in ("dependentSchemas", "dependencies"):
            yield from _schemas([*_object(schema.get(name)).values()])

    def _members(self, counts: Counts) -> dict[str, list[JsonObject]]:
        """The schemas that apply to each member and to the elements of a value."""
        members: dict[str, list[JsonObject]] = {}
        shared: list[JsonObject] = []
        elements: list[JsonObject] = []
        for identity, count in counts.items():
            schema = self._nodes[identity]
            properties = _object(schema.get("properties"))
            any_member = [schema.get(name) for name in _ANY_MEMBER]
            any_member += _object(schema.get("patternProperties")).values()
            found = [schema.get(name) for name in _ELEMENTS]
            any_element = [*found, *chain.from_iterable(map(_list, found))]
            self._step(count * (len(properties) + len(any_member) + len(any_element)))
            for name, inner in properties.items():
                members.setdefault(name, []).extend(_schemas([inner]) * count)
            shared += _schemas(any_member) * count
            elements += _schemas(any_element) * count
        self._step(len(members) * len(shared))
        named = {f".{name}": [*applied, *shared] for name, applied in members.items()}
        return {**named, "": shared, "[]": elements}

    def _step(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._max_steps:
            raise TooManySteps(_TOO_MANY)

    def _resolved(self, reference: object) -> JsonObject | None:
        """The schema of a reference within the document; others are not followed by the checker either."""
        if not isinstance(reference, str):
            return None
        if reference not in self._targets:
            self._targets[reference] = _target(self._root, reference)
        return self._targets[reference]


def _target(root: JsonObject, reference: str) -> JsonObject | None:
    if reference in ("", "#"):
        return root
    if not reference.startswith("#/"):
        return None
    found: object = root
    for step in unquote(reference[2:]).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        elements = _list(found)
        if elements:
            position = int(name) if name.isdecimal() and len(name) < 9 else len(elements)
            found = elements[position] if position < len(elements) else None
        else:
            found = _object(found).get(name)
    return _object(found) or None


def _object(value: object) -> JsonObject:
    """The value if it is an object, else an empty one."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _schemas(values: object) -> list[JsonObject]:
    """The objects in a list; `true` and `false` are schemas, too, but cost nothing."""
    return [cast("JsonObject", value) for value in _list(values) if isinstance(value, dict)]


def _named(schema: JsonObject) -> dict[str, JsonObject]:
    """The subschemas that have a name of their own."""
    named: dict[str, JsonObject] = {}
    for node in _all_objects(schema):
        for key, prefix in (("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
            name = node.get(key)
            if isinstance(name, str):
                named[f"{prefix}{name}"] = node
    return named


def _all_objects(value: object) -> Iterator[JsonObject]:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if node := _object(found):
            yield node
            waiting += node.values()
        else:
            waiting += _list(found)


def _pattern_copies(schema: JsonObject) -> int:
    patterns: list[str] = []
    for node in _all_objects(schema):
        pattern = node.get("pattern")
        patterns += [pattern] if isinstance(pattern, str) else []
        patterns += _object(node.get("patternProperties"))
    if len(patterns) > MAX_PATTERNS or sum(map(len, patterns)) > MAX_PATTERN_CHARACTERS:
        raise TooComplex(
            f"it has more than {MAX_PATTERNS} patterns or {MAX_PATTERN_CHARACTERS} characters of them"
        )
    copies = sum(map(_copies, patterns))
    if copies > MAX_PATTERN_COPIES:
        raise TooComplex(f"the repetitions of its patterns make more than {MAX_PATTERN_COPIES} copies")
    return copies


def _copies(pattern: str) -> int:
    """How many characters and classes a pattern has when its counted repetitions are written out."""
    groups, total, last = list[int](), 0, 0  # `total` is that of the current group before its `last` part
    for part in _PATTERN_PART.finditer(pattern):
        if part["repetition"]:
            bound = (part["most"] or part["least"]).lstrip("0")[:9]
            last = min(last * max(int(bound or 0), 1), MAX_PATTERN_COPIES + 1)
        elif part["open"]:
            groups.append(total + last)
            total = last = 0
        elif part["close"] and groups:
            total, last = groups.pop(), total + last
        else:
            total, last = total + last, 1
    return sum(groups) + total + last
