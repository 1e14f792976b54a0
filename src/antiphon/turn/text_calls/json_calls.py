"""Reading calls that are written as JSON, with the repairs that small models need."""

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from antiphon.protocol.content import JsonObject
from antiphon.turn.text_calls.forms import Call, Tools

Decoded = TypeVar("Decoded")

# Strings are matched whole, so that a comma within one is not seen.
_STRING_OR_TRAILING_COMMA = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|,(?=\s*+(?:[}\]]|\Z))', re.DOTALL
)


class CallObject(Struct):
    """``{"name": …, "arguments": {…}}``; some models say `parameters`."""

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
    """The same, for a body that may be any data: the object must have arguments to be a call."""
    return _explicit_calls(decode_repaired(body, _decode_object), tools)


def read_objects(body: str, tools: Tools) -> list[Call] | None:
    """The calls in a body that is one object, or a list of them."""
    return _calls(decode_repaired(body, _decode_any), tools)


def read_explicit_objects(body: str, tools: Tools) -> list[Call] | None:
    """The same, for a body that may be any data."""
    return _explicit_calls(decode_repaired(body, _decode_any), tools)


def read_arguments(body: str) -> str | None:
    """The text of a body that is nothing but arguments, repaired if need be; nothing if it is no object."""
    body = body.strip()
    for candidate in _candidates(body):
        if decoded(candidate, _decode_arguments) is not None:
            return candidate
    return None


def decoded(text: str, decode: Callable[[str], Decoded]) -> Decoded | None:
    """What the JSON text holds; nothing if it is broken, or something else."""
    try:
        return decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def decode_repaired(body: str, decode: Callable[[str], Decoded]) -> Decoded | None:
    """What the body holds, as it is or repaired."""
    for candidate in _candidates(body.strip()):
        found = decoded(candidate, decode)
        if found is not None:
            return found
    return None


def _candidates(body: str) -> Iterator[str]:
    """The body, then with one repair after the other; at last, one that does not go with all of them.

    A repair that would do alone does no less on top of those before it: they change what it would leave
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
    """Arguments as JSON text: the model's own text of an object; of a string, what it holds."""
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


def _arguments_in_string(said: str, schema: JsonObject | None) -> str | None:
    """An object in a string; any text, for a tool that takes nothing but text."""
    if not said.strip():
        return "{}"
    if decoded(said, _decode_arguments) is not None:
        return said
    properties = (schema or {}).get("properties")
    takes_text = isinstance(properties, dict) and properties.keys() == {"input"}
    return msgspec.json.encode({"input": said}).decode() if takes_text else None
