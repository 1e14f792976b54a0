"""Structured output: the many ways in which a caller may say which JSON it wants, as one `text.format`."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject

OutputSchema = Mapping[str, Any] | str | type
"""`{name, schema, strict?, description?}`, flat or under `json_schema` as chat completions have it; a plain
JSON Schema; either of them as JSON text; or a Python type."""

DEFAULT_NAME = "answer"


def text_format(wanted: OutputSchema) -> JsonObject:
    """The member `format` of `text`. The model is held to the schema unless it says `strict: false`."""
    if isinstance(wanted, str):
        wanted = _decoded(wanted)
    if not isinstance(wanted, Mapping):
        return _format(getattr(wanted, "__name__", DEFAULT_NAME), _schema_of_type(wanted))
    if isinstance(nested := wanted.get("json_schema"), Mapping):
        return _named_format(cast("Mapping[str, Any]", nested))
    if wanted.keys() & {"schema", "name"}:
        return _named_format(wanted)
    return _format(str(wanted.get("title") or DEFAULT_NAME), dict(wanted))


def _named_format(wanted: Mapping[str, Any]) -> JsonObject:
    name, schema = wanted.get("name"), wanted.get("schema")
    if not isinstance(name, str) or not name.strip():
        raise _invalid("The schema of the answer needs a 'name'.", "schema.name")
    if not isinstance(schema, Mapping):
        raise _invalid("The schema of the answer needs a 'schema': a JSON Schema.", "schema.schema")
    made = _format(name, dict(cast("Mapping[str, Any]", schema)))
    return {**made, **{key: wanted[key] for key in ("strict", "description") if key in wanted}}


def _format(name: str, schema: JsonObject) -> JsonObject:
    if not schema:
        raise _invalid("The schema of the answer is empty.", "schema.schema")
    allowed = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]
    return {"type": "json_schema", "name": allowed, "schema": schema, "strict": True}


def _decoded(text: str) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _invalid(f"The schema of the answer is no JSON object: {error}", "schema") from None


def _schema_of_type(kind: Any) -> JsonObject:
    """As `strict` wants it: an object, all members required, and no others."""
    try:
        (root,), definitions = msgspec.json.schema_components([kind])
    except TypeError as error:
        raise _invalid(f"There is no JSON Schema of {kind!r}: {error}", "schema") from None
    if "$ref" in root:
        name = str(root["$ref"]).rpartition("/")[2]
        root = definitions[name]
        if f'"#/$defs/{name}"' not in msgspec.json.encode(definitions).decode():
            del definitions[name]
    if root.get("type") != "object" or "properties" not in root:
        raise _invalid(f"{kind!r} is no object with members: wrap it in a struct.", "schema")
    return _closed({**root, "$defs": definitions} if definitions else root)


def _closed(schema: Any) -> Any:
    """Without defaults, and all objects closed. A name of a member or a definition is no keyword."""
    if isinstance(schema, list | tuple):
        return [_closed(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    closed: JsonObject = {}
    for keyword, value in cast("JsonObject", schema).items():
        if keyword in ("properties", "$defs"):
            closed[keyword] = {name: _closed(one) for name, one in value.items()}
        elif keyword != "default":
            closed[keyword] = _closed(value)
    if closed.get("type") == "object" and "properties" in closed:
        closed |= {"required": list(closed["properties"]), "additionalProperties": False}
    return closed


def _invalid(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param=param)
