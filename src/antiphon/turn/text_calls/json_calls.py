"""Calls that are written as JSON, and arguments as JSON text.

Small models break JSON in a few typical ways; `decode_repaired` tries the repairs one after the other.
Dialects with tags around each value write no types (``<parameter=days>3</parameter>``): `encode_arguments`
takes them from the tool's schema.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from antiphon.protocol.content import JsonObject

Decoded = TypeVar("Decoded")
Tools = Mapping[str, JsonObject | None]
"""The tools that the model may call: their names, and the JSON schemas of their parameters."""


class Call(Struct, frozen=True):
    """A call that was read from text. `arguments` is JSON text."""

    name: str
    arguments: str


Reader = Callable[[str, Tools], Sequence[Call] | None]
"""Reads a body, which is the text between the tags; None if it does not consist of calls."""


class CallObject(Struct):
    """``{"name": …, "arguments": {…}}``; some models write `parameters`."""

    name: str
    arguments: Raw | UnsetType = UNSET
    parameters: Raw | UnsetType = UNSET

    @property
    def given(self) -> Raw | UnsetType:
        """The arguments, under either name."""
        return self.parameters if isinstance(self.arguments, UnsetType) else self.arguments


_decode_object = msgspec.json.Decoder(CallObject).decode
_decode_any = msgspec.json.Decoder[CallObject | list[CallObject]](CallObject | list[CallObject]).decode
_decode_arguments = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode


def read_object(body: str, tools: Tools) -> list[Call] | None:
    """The call in a body that is one object."""
    return _calls(decode_repaired(body, _decode_object), tools)


def read_explicit_object(body: str, tools: Tools) -> list[Call] | None:
    """The same for a body that may be other data: only an object with arguments is a call."""
    return _explicit_calls(decode_repaired(body, _decode_object), tools)


def read_objects(body: str, tools: Tools) -> list[Call] | None:
    """The calls in a body that is one object or a list of objects."""
    return _calls(decode_repaired(body, _decode_any), tools)


def read_explicit_objects(body: str, tools: Tools) -> list[Call] | None:
    """The same for a body that may be other data."""
    return _explicit_calls(decode_repaired(body, _decode_any), tools)


def read_arguments(body: str) -> str | None:
    """The text of a body that is one object of arguments, repaired if necessary."""
    body = body.strip()
    for candidate in _candidates(body):
        if decoded(candidate, _decode_arguments) is not None:
            return candidate
    return None


def decoded(text: str, decode: Callable[[str], Decoded]) -> Decoded | None:
    """The decoded JSON; None if it is broken or of another type."""
    try:
        return decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def decode_repaired(body: str, decode: Callable[[str], Decoded]) -> Decoded | None:
    """The decoded body, as it is or repaired."""
    for candidate in _candidates(body.strip()):
        found = decoded(candidate, decode)
        if found is not None:
            return found
    return None


# Matches complete strings, so that a comma within one is not seen.
_STRING_OR_TRAILING_COMMA = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|,(?=\s*+(?:[}\]]|\Z))', re.DOTALL
)


def _candidates(body: str) -> Iterator[str]:
    """The body; then with one repair more each; then with a repair that excludes some of the others.

    A repair that is enough by itself is also enough on top of the earlier ones: those change what it leaves
    broken, or nothing.
    """
    yield body
    repaired = body
    for repair in _REPAIRS:
        before, repaired = repaired, repair(repaired)
        if repaired != before:
            yield repaired
    if body.endswith("]"):
        yield _without_brace_in_list(_without_trailing_commas(body))


def _without_trailing_commas(text: str) -> str:
    return _STRING_OR_TRAILING_COMMA.sub(lambda found: "" if found[0] == "," else found[0], text)


def _without_last(character: str) -> Callable[[str], str]:
    return lambda text: text.removesuffix(character).rstrip()


def _without_brace_in_list(text: str) -> str:
    """``[{…}}]`` with one brace less."""
    return text.removesuffix("]").rstrip().removesuffix("}") + "]"


_REPAIRS = (_without_trailing_commas, _without_last(">"), _without_last("}"), _without_last("]"))


def _explicit_calls(found: CallObject | list[CallObject] | None, tools: Tools) -> list[Call] | None:
    if any(isinstance(call.given, UnsetType) for call in _objects(found)):
        return None
    return _calls(found, tools)


def _calls(found: CallObject | list[CallObject] | None, tools: Tools) -> list[Call] | None:
    """The calls, if every object is one."""
    calls: list[Call] = []
    for call in _objects(found):
        arguments = _arguments(call.given, tools.get(call.name))
        if arguments is None:
            return None
        calls.append(Call(call.name, arguments))
    return calls or None


def _objects(found: CallObject | list[CallObject] | None) -> list[CallObject]:
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


def _arguments(given: Raw | UnsetType, schema: JsonObject | None) -> str | None:
    """Arguments as JSON text: an object in the model's own spelling, or the object within a string."""
    if isinstance(given, UnsetType):
        return "{}"
    text = bytes(given).decode()
    match text[0]:
        case "{":
            return text
        case '"':
            return _arguments_in_string(_decode_string(text), schema)
        case "n":
            return "{}"
        case _:
            return None


def _arguments_in_string(text: str, schema: JsonObject | None) -> str | None:
    """An object in a string; any text for a tool whose only parameter is `input`."""
    if not text.strip():
        return "{}"
    if decoded(text, _decode_arguments) is not None:
        return text
    properties = (schema or {}).get("properties")
    takes_text = isinstance(properties, dict) and properties.keys() == {"input"}
    return msgspec.json.encode({"input": text}).decode() if takes_text else None


_PYTHON_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
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
    """Untyped arguments as JSON text, in the order in which they were written.

    `strings`: names of arguments that are strings whatever they look like. None for text with half a
    surrogate pair, which JSON cannot encode.
    """
    properties = (schema or {}).get("properties")
    known = cast("JsonObject", properties) if isinstance(properties, dict) else {}
    typed = {name: text if name in strings else _typed(text, known.get(name)) for name, text in pairs}
    try:
        return msgspec.json.encode(typed).decode()
    except UnicodeEncodeError:
        return None


def _typed(text: str, schema: object) -> str | Raw:
    """JSON if the schema allows the value as such, or has no type and the value is not a string; else a
    string.

    The JSON is the model's own text, so that numbers keep all their digits.
    """
    allowed = _types(schema)
    literal = text.strip()
    if allowed and "string" not in allowed:
        literal = _PYTHON_CONSTANTS.get(literal, literal)
    value = decoded(literal, msgspec.json.decode)
    kind = "null" if literal == "null" else "string" if value is None else _JSON_TYPES[type(value)]
    if kind == "string" or ("string" in allowed and not _fits(kind, allowed)):
        return text
    return Raw(literal.encode())


def _fits(kind: str, allowed: set[str]) -> bool:
    return kind in allowed or (kind == "integer" and "number" in allowed)


def _types(schema: object) -> set[str]:
    """The JSON types that a schema allows; empty if it names none."""
    if not isinstance(schema, dict):
        return set()
    members = cast("JsonObject", schema)
    kind = members.get("type")
    allowed = {kind} if isinstance(kind, str) else {name for name in _list(kind) if isinstance(name, str)}
    for value in _list(members.get("enum")):
        allowed.add(_JSON_TYPES[type(value)])
    if "const" in members:
        allowed.add(_JSON_TYPES[type(members["const"])])
    for key in ("anyOf", "oneOf", "allOf"):
        for option in _list(members.get(key)):
            allowed |= _types(option)
    return allowed


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
