"""Reduce JSON schemas to the part that the API enforces.

The API requires closed objects and supports few constraints. An object is closed explicitly; an unsupported
constraint is removed, and the answer is then checked against the original schema. A schema that cannot be
enforced even so, because its objects are open or recursive, is `None`.
"""

from typing import Any, NamedTuple, cast

from antiphon.protocol.content import JsonObject

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_KEPT = frozenset({"type", "enum", "const", "$ref", "required", "description", "title", "default"})
_SILENT = frozenset({"$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords without constraints, which can be removed without effect."""
_COMBINED = frozenset({"anyOf", "allOf", "oneOf"})


class Enforced(NamedTuple):
    """A schema that the API accepts; `exact` if it accepts no value that the original rejects."""

    schema: JsonObject
    exact: bool


def enforceable(schema: JsonObject) -> Enforced | None:
    """The strongest schema that the API takes."""
    try:
        walk = _Walk(schema)
        return Enforced(walk.close(schema), walk.exact)
    except (_Open, RecursionError):
        return None


def as_input_schema(parameters: JsonObject | None) -> JsonObject:
    """The parameters of a tool: always an object, and never a choice among several at the top."""
    if parameters is None:
        return {"type": "object", "properties": {}}
    if not _COMBINED & parameters.keys():
        return parameters if parameters.get("type") == "object" else {**parameters, "type": "object"}
    merged: JsonObject = {key: value for key, value in parameters.items() if key not in _COMBINED}
    properties: JsonObject = {}
    for keyword in _COMBINED & parameters.keys():
        for option in _objects(parameters[keyword]):
            properties |= _object(option.get("properties"))
    return {**merged, "type": "object", "properties": {**properties, **_object(merged.get("properties"))}}


class _Open(Exception):
    """An object may have members that are not named, or a schema holds itself."""


class _Walk:
    """Translates one schema."""

    def __init__(self, root: JsonObject) -> None:
        self.exact = True
        self._definitions = {
            f"#/{place}/{name}": inner
            for place in ("$defs", "definitions")
            for name, inner in _object(root.get(place)).items()
        }
        self._within: list[str] = []
        self._sound: set[str] = set()

    def close(self, schema: JsonObject) -> JsonObject:
        """The schema with all its objects closed."""
        closed: JsonObject = {}
        for key, value in schema.items():
            if key in _KEPT:
                closed[key] = value
            elif not self._nested(key, value, closed) and key not in _SILENT:
                self._constraint(key, value, closed)
        if "$ref" in schema:
            self._follow(schema["$ref"])
        if schema.get("type") == "object" or "properties" in schema:
            if not schema.get("properties"):
                raise _Open  # closed, it could only be empty
            closed["additionalProperties"] = False
        return closed

    def _nested(self, key: str, value: Any, closed: JsonObject) -> bool:
        """Whether this holds schemas; if so, they are closed too."""
        if key in ("properties", "$defs", "definitions"):
            closed[key] = {name: self.close(_object(inner)) for name, inner in _object(value).items()}
        elif key in _COMBINED:
            if key == "allOf" and len(_objects(value)) > 1:
                raise _Open  # closed, they would rule each other out
            self.exact &= key != "oneOf"
            closed["anyOf" if key == "oneOf" else key] = [self.close(option) for option in _objects(value)]
        elif key == "items" and isinstance(value, dict):
            closed[key] = self.close(_object(value))
        else:
            return False
        return True

    def _constraint(self, key: str, value: Any, closed: JsonObject) -> None:
        if key == "additionalProperties":
            if value is not False:
                raise _Open
        elif (key == "format" and value in _FORMATS) or (key == "minItems" and value in (0, 1)):
            closed[key] = value
        else:
            self.exact = False

    def _follow(self, reference: object) -> None:
        """See that a definition does not come back to itself."""
        name = str(reference)
        if name in self._sound:
            return
        if name not in self._definitions or name in self._within:
            raise _Open
        self._within.append(name)
        for inner in _references(self._definitions[name]):
            self._follow(inner)
        self._sound.add(self._within.pop())


def _references(value: Any) -> list[str]:
    """All that a definition refers to."""
    if isinstance(value, list):
        return [name for inner in cast("list[Any]", value) for name in _references(inner)]
    if not isinstance(value, dict):
        return []
    members = _object(cast("Any", value))
    own = [members["$ref"]] if isinstance(members.get("$ref"), str) else []
    return own + [name for inner in members.values() for name in _references(inner)]


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _objects(value: Any) -> list[JsonObject]:
    return [_object(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else []
