"""Reduce JSON schemas to the part that the API enforces.

The API supports a documented subset of JSON Schema and ignores the rest. Unsupported keywords are removed,
and the answer is then checked against the original schema.
"""

from typing import Any, NamedTuple, cast

from antiphon.protocol.content import JsonObject

_KEPT = frozenset(
    {"type", "title", "description", "enum", "required", "minItems", "maxItems", "minimum", "maximum"}
    | {"$id", "$anchor", "$ref", "propertyOrdering"}
)
_SILENT = frozenset(
    {"$schema", "$comment", "default", "example", "examples", "deprecated", "readOnly", "writeOnly"}
)
"""Keywords without constraints, which can be removed without effect."""
_FORMATS = frozenset({"date-time", "date", "time", "float", "double", "int32", "int64"})
_NAMED = {"properties": "properties", "$defs": "$defs", "definitions": "$defs"}
_LISTED = {"anyOf": "anyOf", "oneOf": "anyOf", "prefixItems": "prefixItems"}
_ONE = frozenset({"items", "additionalProperties"})
_BESIDE_REFERENCE = frozenset({"$ref", "$defs", "$id", "$anchor"})
_MAX_DEPTH = 64
"""The deepest nesting of schemas that is translated; the API itself accepts less."""


class Enforced(NamedTuple):
    """A schema that the API accepts; `exact` if it accepts no value that the original rejects."""

    schema: JsonObject
    exact: bool


def enforceable(schema: JsonObject) -> Enforced | None:
    """The strictest schema that the API accepts; None for a schema that is nested too deeply."""
    walk = _Walk()
    try:
        return Enforced(walk.part(schema), walk.exact)
    except _TooDeep:
        return None


class _TooDeep(Exception):
    """The schema is nested too deeply."""


class _Walk:
    """Translates one schema."""

    def __init__(self) -> None:
        self.exact = True
        self._depth = 0

    def part(self, schema: JsonObject) -> JsonObject:
        """The schema without unsupported keywords."""
        if self._depth == _MAX_DEPTH:
            raise _TooDeep
        self._depth += 1
        result: JsonObject = {}
        for key, value in schema.items():
            if key in _KEPT:
                result[key] = str(value).replace("#/definitions/", "#/$defs/") if key == "$ref" else value
            elif not self._nested(key, value, result) and key not in _SILENT:
                self._constraint(key, value, result)
        self._depth -= 1
        if "$ref" not in result:
            return result
        # A reference must be the only member.
        beside = result.keys() - _BESIDE_REFERENCE - {"title", "description"}
        self.exact &= not beside
        return {key: value for key, value in result.items() if key in _BESIDE_REFERENCE}

    def _nested(self, key: str, value: Any, result: JsonObject) -> bool:
        """Translate a keyword that contains schemas; False if it does not."""
        if key in _NAMED and isinstance(value, dict):
            parts = {name: self._inner(inner) for name, inner in _object(value).items()}
            result[_NAMED[key]] = {**result.get(_NAMED[key], {}), **parts}
        elif key in _LISTED and isinstance(value, list):
            self.exact &= key != "oneOf"
            result[_LISTED[key]] = [self._inner(inner) for inner in cast("list[Any]", value)]
        elif key in _ONE and isinstance(value, dict | bool):
            result[key] = self.part(_object(value)) if isinstance(value, dict) else value
        else:
            return False
        return True

    def _inner(self, value: Any) -> JsonObject:
        """A nested schema. `true` becomes an empty one; the API does not support `false`."""
        self.exact &= value is not False
        return self.part(_object(value))

    def _constraint(self, key: str, value: Any, result: JsonObject) -> None:
        if key == "format" and isinstance(value, str) and value in _FORMATS:
            result[key] = value
        elif key == "const" and isinstance(value, str | int | float) and not isinstance(value, bool):
            result["enum"] = [value]
        elif key == "allOf" and isinstance(value, list) and len(cast("list[Any]", value)) == 1:
            result |= self.part(_object(cast("list[Any]", value)[0]))
        else:
            self.exact = False


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
