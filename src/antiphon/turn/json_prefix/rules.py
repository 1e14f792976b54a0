"""What a schema says about a value at the moment when its first character is known.

Several schemas may apply to one value: those of `allOf` and `$ref` as well. A keyword that cannot be decided
while a value arrives (patterns, formats, conditions, `not`) is ignored here and left to the check at the end:
to ignore one can only accept more. Of `anyOf` and `oneOf` the alternatives of another type are excluded; the
one that remains applies, and if several remain, none of them does.

Rules are made when a value needs them, from the parts of the schema that the value reaches.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeGuard, cast
from urllib.parse import unquote

from antiphon.protocol.content import JsonObject
from antiphon.turn.json_prefix.faults import Undecided

Kind = Literal["object", "array", "string", "number", "boolean", "null"]
"""The type of a value, as far as its first character shows it."""

MAX_SCHEMA_STEPS = 5_000
"""Subschemas and elements of `enum` that may be visited for one answer. One takes about a microsecond."""
MAX_EXACT_NUMBER = 2**53
"""Greater numbers are left to the check at the end: how they compare depends on their representation."""
_MAX_ALTERNATIVE_DEPTH = 8
_KINDS: Mapping[str, Kind] = {
    "object": "object",
    "array": "array",
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
_DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
_DRAFTS_WITHOUT_SIBLINGS = (
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
)
"""Drafts in which a `$ref` replaces everything beside it."""

Schemas = tuple[object, ...]
"""The schemas that all apply to one value; none: anything is allowed."""


class ObjectRule:
    """What applies to the members of an object."""

    __slots__ = (
        "_members",
        "_schemas",
        "counts",
        "max_properties",
        "min_properties",
        "needs_names",
        "required",
    )

    def __init__(self, schemas: Sequence[JsonObject]) -> None:
        self.required = frozenset(name for schema in schemas for name in schema.get("required", ()))
        self.min_properties = _bound(schemas, "minProperties", max)
        self.max_properties = _bound(schemas, "maxProperties", min)
        self._schemas = [schema for schema in schemas if _describes_members(schema)]
        self._members: dict[str, Schemas | None] = {}
        self.counts = bool(self.required) or (self.min_properties, self.max_properties) != (None, None)
        """Whether it matters which members the object has."""
        self.needs_names = bool(self._schemas) or self.counts

    def member(self, name: str) -> Schemas | None:
        """The schemas of a member; None if the object must not have it."""
        if name in self._members:
            return self._members[name]
        found: list[object] = []
        declared = False
        for schema in self._schemas:
            properties: JsonObject = schema.get("properties", {})
            if name in properties:
                declared = True
                found.append(properties[name])
            elif "patternProperties" not in schema:
                found.append(schema.get("additionalProperties", True))
        members = None if any(schema is False for schema in found) else _described(found)
        if declared:  # there are only so many of these
            self._members[name] = members
        return members


class ArrayRule:
    """What applies to the elements of an array."""

    __slots__ = ("_lists", "_rest", "max_items", "min_items")

    def __init__(self, schemas: Sequence[JsonObject], prefix: str, rest: str) -> None:
        self.min_items = _bound(schemas, "minItems", max)
        self.max_items = _bound(schemas, "maxItems", min)
        self._lists: list[tuple[list[object], object]] = []
        everywhere: list[object] = []
        for schema in schemas:
            listed = schema.get(prefix)
            if isinstance(listed, list):
                self._lists.append((cast("list[object]", listed), schema.get(rest, True)))
            else:
                everywhere.append(schema.get("items", True))
        self._rest = _described(everywhere)

    def element(self, index: int) -> Schemas:
        """The schemas of the element at this index."""
        if not self._lists:
            return self._rest
        found = [listed[index] if index < len(listed) else rest for listed, rest in self._lists]
        return (*self._rest, *_described(found))


class StringRule:
    """What applies to a string."""

    __slots__ = ("choices", "is_free", "max_length", "min_length")

    def __init__(self, schemas: Sequence[JsonObject]) -> None:
        self.min_length = _bound(schemas, "minLength", max) or 0
        self.max_length = _bound(schemas, "maxLength", min)
        self.choices = cast("frozenset[str] | None", _choices(schemas, "string"))
        if self.choices is not None:
            longest = max(map(len, self.choices), default=0)
            self.max_length = longest if self.max_length is None else min(longest, self.max_length)
        self.is_free = self.max_length is None and not self.min_length
        """Whether every string fits."""


class NumberRule:
    """What applies to a number."""

    __slots__ = ("_bounds", "_choices", "_integer", "is_free")

    def __init__(self, schemas: Sequence[JsonObject]) -> None:
        types = [_types(schema) for schema in schemas]
        self._integer = any("integer" in each and "number" not in each for each in types)
        self._choices = _choices(schemas, "number")
        self._bounds = [
            (name, fits, schema[name])
            for schema in schemas
            for name, fits in _BOUNDS.items()
            if name in schema
        ]
        self.is_free = not (self._integer or self._bounds or self._choices is not None)

    def fault(self, value: float) -> str | None:
        """Why a number does not fit."""
        if abs(value) > MAX_EXACT_NUMBER:
            return None
        if self._integer and value != int(value):
            return f"{value} is not of type 'integer'"
        if self._choices is not None and value not in self._choices:
            return f"{value} is none of the allowed values"
        for name, fits, bound in self._bounds:
            if not fits(value, bound):
                return f"{value} violates '{name}', which is {bound}"
        return None


class LiteralRule:
    """What applies to `true`, `false` and `null`."""

    __slots__ = ("choices",)

    def __init__(self, schemas: Sequence[JsonObject], kind: Kind) -> None:
        self.choices = _choices(schemas, kind)


Rule = ObjectRule | ArrayRule | StringRule | NumberRule | LiteralRule


class SchemaRules:
    """The rules of one schema."""

    def __init__(self, schema: JsonObject) -> None:
        self._root = schema
        draft = str(schema.get("$schema", _DRAFT_2020)).rstrip("#")
        self._ref_is_alone = draft in _DRAFTS_WITHOUT_SIBLINGS
        self._lists = ("prefixItems", "items") if draft == _DRAFT_2020 else ("items", "additionalItems")
        known = self._ref_is_alone or draft in (_DRAFT_2020, _DRAFT_2019)
        self.root: Schemas = (schema,) if known else ()
        """The schemas of the whole value. Of a draft with other rules only the syntax is checked."""
        self._steps = 0
        self._rules: dict[tuple[object, ...], Rule | None] = {}

    def rule(self, schemas: Schemas, kind: Kind) -> Rule | None:
        """The rule of a value of this kind; None if it is not allowed. Raises `Undecided`."""
        key = (kind, *map(id, schemas))
        try:
            return self._rules[key]
        except KeyError:
            applied = self._applied(schemas, kind, 0)
            rule = self._rules[key] = None if applied is None else self._made(applied, kind)
            return rule

    def allowed_types(self, schemas: Schemas) -> list[str]:
        """The types that are allowed, if a single schema says so."""
        expanded = self._expanded(schemas) or []
        return next(filter(None, [_types(schema) for schema in expanded]), list[str]())

    def _made(self, schemas: Sequence[JsonObject], kind: Kind) -> Rule:
        match kind:
            case "object":
                return ObjectRule(schemas)
            case "array":
                return ArrayRule(schemas, *self._lists)
            case "string":
                return StringRule(schemas)
            case "number":
                return NumberRule(schemas)
            case "boolean" | "null":
                return LiteralRule(schemas, kind)

    def _applied(self, schemas: Iterable[object], kind: Kind, depth: int) -> list[JsonObject] | None:
        """All schemas that apply to a value of this kind; None if one of them excludes it."""
        found: list[JsonObject] = []
        waiting: Iterable[object] = schemas
        while waiting:
            expanded = self._expanded(waiting)
            if expanded is None:
                return None
            remaining: list[object] = []
            for schema in expanded:
                self._step(len(schema.get("enum", ())))
                if not _permits(schema, kind):
                    return None
                for name in ("anyOf", "oneOf"):
                    if name in schema:
                        fitting = self._fitting(schema[name], kind, depth)
                        if not fitting:
                            return None
                        remaining += fitting if len(fitting) == 1 else ()
            found += expanded
            waiting = remaining
        return found

    def _fitting(self, alternatives: Sequence[object], kind: Kind, depth: int) -> list[object]:
        """The alternatives that do not exclude a value of this kind."""
        if depth >= _MAX_ALTERNATIVE_DEPTH:
            return [*alternatives]
        return [each for each in alternatives if self._applied([each], kind, depth + 1) is not None]

    def _expanded(self, schemas: Iterable[object]) -> list[JsonObject] | None:
        """These schemas, those that they refer to, and those of `allOf`; None if nothing is allowed."""
        found: list[JsonObject] = []
        seen = set[int]()
        waiting = list(schemas)
        while waiting:
            schema = waiting.pop()
            self._step()
            if schema is False:
                return None
            if not _is_object(schema) or id(schema) in seen or self._is_other_resource(schema):
                continue
            seen.add(id(schema))
            if "$ref" in schema:
                waiting.append(self._target(schema["$ref"]))
                if self._ref_is_alone:
                    continue
            found.append(schema)
            waiting += schema.get("allOf", ())
        return found

    def _target(self, reference: object) -> object:
        """The schema of a reference within the document; `True` for others."""
        if reference == "#":
            return self._root
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return True
        found: object = self._root
        for step in unquote(reference[2:]).split("/"):
            if not _is_object(found) or self._is_other_resource(found):
                return True
            found = found.get(step.replace("~1", "/").replace("~0", "~"), True)
        return found

    def _is_other_resource(self, schema: JsonObject) -> bool:
        """Whether references within this schema, or its keywords, mean something else than in the root."""
        return schema is not self._root and ("$id" in schema or "$schema" in schema)

    def _step(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MAX_SCHEMA_STEPS:
            raise Undecided


def _is_object(value: object) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)


def _described(schemas: Iterable[object]) -> Schemas:
    """These schemas without those that allow everything."""
    return tuple(schema for schema in schemas if schema is not True and schema != {})


def _describes_members(schema: JsonObject) -> bool:
    return "properties" in schema or "additionalProperties" in schema


def _types(schema: JsonObject) -> list[str]:
    types: str | list[str] = schema.get("type", [])
    return [types] if isinstance(types, str) else types


def _permits(schema: JsonObject, kind: Kind) -> bool:
    """Whether `type`, `enum` and `const` permit a value of this kind."""
    types = _types(schema)
    if types and not any(_KINDS[each] == kind for each in types):
        return False
    if "enum" in schema and not any(_kind_of(value) == kind for value in schema["enum"]):
        return False
    return "const" not in schema or _kind_of(schema["const"]) == kind


def _kind_of(value: object) -> Kind:
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "boolean"
        case None:
            return "null"
        case _:
            return "number"


def _choices(schemas: Sequence[JsonObject], kind: Kind) -> frozenset[object] | None:
    """The values of this kind that `enum` and `const` allow; None if they say nothing."""
    found: list[frozenset[object]] = []
    for schema in schemas:
        if "enum" in schema:
            found.append(frozenset(value for value in schema["enum"] if _kind_of(value) == kind))
        if "const" in schema:
            found.append(frozenset((schema["const"],)))
    return found[0].intersection(*found[1:]) if found else None


def _bound(schemas: Sequence[JsonObject], name: str, pick: Callable[[list[int]], int]) -> int | None:
    bounds = [int(schema[name]) for schema in schemas if name in schema]
    return pick(bounds) if bounds else None


_BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
