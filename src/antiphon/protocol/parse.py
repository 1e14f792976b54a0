"""Parse JSON into typed values. Errors name the parameter and what was expected.

Every failure becomes `InvalidRequest` with OpenAI's `param` spelling: ``input[2].content[0].text``.
"""

import re
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject, Metadata
from antiphon.protocol.large_body import Body, LargeBody

T = TypeVar("T")

_LOCATION = re.compile(r" - at (?:`(?:key|value)` in )?`\$(?P<path>[^`]*)`$")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`")
_SEGMENT = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\.\.\.)\]")


_NAMES = {
    "NoneType": "null",
    "str": "a string",
    "bool": "a boolean",
    "int": "an integer",
    "float": "a number",
    "list": "an array",
}


def check_text(body: Body) -> None:
    """Reject a body that is not UTF-8, also in ignored members: the body may be stored."""
    if isinstance(body, LargeBody):
        body = body.skeleton()  # its texts are decoded
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The request body is not valid UTF-8.", code="invalid_json") from None


def decode(body: Body, kind: type[T], what: str = "The request body") -> T:
    """Decode a JSON document into a typed value."""
    if isinstance(body, LargeBody):
        return convert(body.decode(what), kind, "")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(error, kind, "") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{what} is not valid JSON: {error}.", code="invalid_json") from None
    except RecursionError:
        raise InvalidRequest(f"{what} is nested too deeply.", code="invalid_json") from None


def convert(value: object, kind: type[T], path: str) -> T:
    """Convert plain JSON at `path` of the request into a typed value."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise invalid(error, kind, path) from None
    except RecursionError:
        raise InvalidRequest(f"'{path}' is nested too deeply.", param=path, code="invalid_json") from None


def as_object(value: object, path: str) -> JsonObject:
    """The value as a JSON object without its null members: null and absent mean the same here."""
    if not isinstance(value, dict):
        message = f"Invalid type for '{path}': expected an object, but got {kind_of(value)} instead."
        raise InvalidRequest(message, param=path, code="invalid_type")
    members = cast("JsonObject", value)
    return {key: member for key, member in members.items() if member is not None}


def required(value: JsonObject, name: str, path: str, hint: str = "") -> Any:
    """A required member."""
    if name not in value:
        raise missing(f"{path}.{name}", hint)
    return value[name]


def missing(param: str, hint: str = "") -> InvalidRequest:
    """The error for an absent required member."""
    message = f"Missing required parameter: '{param}'.{' ' + hint if hint else ''}"
    return InvalidRequest(message, param=param, code="missing_required_parameter")


def kind_of(value: object) -> str:
    """The JSON name of a value's type, with its article."""
    return _NAMES.get(type(value).__name__, "an object")


def invalid(error: msgspec.ValidationError, kind: Any, path: str) -> InvalidRequest:
    """Translate an error of msgspec into OpenAI's terms."""
    text = str(error)
    location = _LOCATION.search(text)
    inner = location["path"].lstrip(".") if location else ""
    reason = text[: location.start()] if location else text
    # msgspec writes a key of a plain object, which it does not name, as `[...]`.
    param = ".".join(part for part in (path, inner.removeprefix("[...]")) if part).replace(".[", "[")
    absent = _MISSING.match(reason)
    if absent:
        return missing(".".join(part for part in (param, absent["field"]) if part))
    code = "invalid_type" if ", got " in reason else "invalid_value"
    allowed = _allowed_values(kind, inner) if "enum value" in reason else ""
    where = f" for '{param}'" if param else ""
    label = "Invalid type" if code == "invalid_type" else "Invalid value"
    message = f"{label}{where}: {reason[0].lower()}{reason[1:]}{allowed}."
    return InvalidRequest(message, param=param or None, code=code)


def _allowed_values(kind: Any, inner: str) -> str:
    """The values that a literal at `inner` takes, for the error message."""
    found = inspect.type_info(kind)
    for name, index in _SEGMENT.findall(inner):
        found = _step(found, name, index)
    values = [value for option in _options(found) for value in _literals(option)]
    return f"; use one of {', '.join(repr(value) for value in values)}" if values else ""


def _step(found: inspect.Type, name: str, index: str) -> inspect.Type:
    for option in _options(found):
        if index and isinstance(option, inspect.ListType):
            return option.item_type
        if isinstance(option, inspect.StructType):
            for field in option.fields:
                if field.encode_name == name:
                    return field.type
    return inspect.AnyType()


def _options(found: inspect.Type) -> tuple[inspect.Type, ...]:
    return found.types if isinstance(found, inspect.UnionType) else (found,)


def _literals(option: inspect.Type) -> tuple[object, ...]:
    return option.values if isinstance(option, inspect.LiteralType) else ()


MAX_METADATA_PAIRS = 16


def check_metadata(metadata: Metadata | None) -> None:
    if metadata is not None and len(metadata) > MAX_METADATA_PAIRS:
        message = f"'metadata' has {len(metadata)} pairs; at most {MAX_METADATA_PAIRS} are allowed."
        raise InvalidRequest(message, param="metadata", code="object_above_max_properties")
