"""Types for values that a model wrote without any, as in ``<parameter=days>3</parameter>``."""

from collections.abc import Collection, Iterable
from typing import Any, cast

import msgspec
from msgspec import Raw

from antiphon.protocol.content import JsonObject
from antiphon.turn.text_calls.json_calls import decoded

_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def encode_arguments(
    pairs: Iterable[tuple[str, str]], schema: JsonObject | None, strings: Collection[str] = ()
) -> str | None:
    """The arguments as JSON text, in the order in which they were written.

    `strings` are the names of those that are strings, whatever they look like. There is no JSON text of
    half a surrogate pair.
    """
    properties = (schema or {}).get("properties")
    known = cast("JsonObject", properties) if isinstance(properties, dict) else {}
    typed = {name: text if name in strings else _typed(text, known.get(name)) for name, text in pairs}
    try:
        return msgspec.json.encode(typed).decode()
    except UnicodeEncodeError:
        return None


def _typed(text: str, schema: object) -> str | Raw:
    """JSON if the schema takes the value as such, or says nothing and it is no string; else a string.

    The JSON is the model's own text, so numbers keep all their digits.
    """
    allowed = _types(schema)
    word = text.strip()
    if allowed and "string" not in allowed:
        word = _PYTHON_WORDS.get(word, word)
    value = decoded(word, msgspec.json.decode)
    kind = "null" if word == "null" else "string" if value is None else _kind(value)
    if kind == "string" or ("string" in allowed and not _fits(kind, allowed)):
        return text
    return Raw(word.encode())


def _kind(value: object) -> str:
    """The JSON type of a decoded value."""
    return _JSON_TYPES[type(value)]


def _fits(kind: str, allowed: set[str]) -> bool:
    return kind in allowed or (kind == "integer" and "number" in allowed)


def _types(schema: object) -> set[str]:
    """The JSON types that a schema takes; empty if it does not say."""
    if not isinstance(schema, dict):
        return set()
    members = cast("JsonObject", schema)
    kind = members.get("type")
    allowed = {kind} if isinstance(kind, str) else _strings(kind)
    for value in _list(members.get("enum")):
        allowed.add(_kind(value))
    if "const" in members:
        allowed.add(_kind(members["const"]))
    for key in ("anyOf", "oneOf", "allOf"):
        for option in _list(members.get(key)):
            allowed |= _types(option)
    return allowed


def _strings(value: object) -> set[str]:
    return {member for member in _list(value) if isinstance(member, str)}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
