"""The orchestrator's values as JSON: written in camel, Pascal or snake case, read in any case.

Only the names of our own members change; the names inside passed-through JSON, such as a `rag_scope_filter`,
stay. A null member means the same as an absent one.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec
from msgspec import NODEFAULT, Struct, inspect
from msgspec.structs import FieldInfo, fields

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.events import AgentEvent
from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse import convert, decode

Case = Literal["camel", "pascal", "snake"]
T = TypeVar("T", bound=Struct)

_SEGMENT = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def to_json(value: Struct, case: Case = "camel") -> bytes:
    """Encode a value as JSON. A struct that omits its defaults omits them here too."""
    return msgspec.json.encode(_plain(value, case))


def from_json(data: bytes | str, kind: type[T]) -> T:
    """Decode a value from JSON in any case. `InvalidRequest` names the member as the sender spelled it."""
    return from_members(decode(_as_bytes(data), JsonObject, "The document"), kind)


def event_from_json(data: bytes | str) -> AgentEvent:
    """Decode an event of an agent run, by its `type`."""
    raw = decode(_as_bytes(data), JsonObject, "The event")
    tag = next((member for name, member in raw.items() if fold(name) == "type"), None)
    kind = _EVENTS.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise InvalidRequest(f"'{tag}' is not the type of an agent's event.", param="type")
    return cast("AgentEvent", from_members(raw, kind))


def from_members(raw: JsonObject, kind: type[T], path: str = "") -> T:
    """As `from_json`, from an object found at `path`, which is not modified."""
    members = _canonical(raw, kind, f"{path}." if path else "")
    try:
        return convert(members, kind, "")
    except InvalidRequest as error:
        raise respelled(error, raw, path) from None


def fold(name: str) -> str:
    """The folded name, which all spellings share."""
    return name.replace("_", "").lower()


def spelled(raw: object, path: str) -> str:
    """A path in the sender's spelling; a missing member is spelled like its neighbours."""
    out, case = "", case_of(raw)
    for name, index in _SEGMENT.findall(path):
        if index:
            out += f"[{index}]"
            raw = _at(raw, int(index))
            continue
        key = _key(raw, name)
        case = case_of(raw) if raw else case
        out += ("." if out else "") + (key if key is not None else cased(name, case))
        raw = cast("JsonObject", raw)[key] if key is not None else None
    return out


def respelled(error: InvalidRequest, raw: JsonObject, path: str = "") -> InvalidRequest:
    """The same error, with its parameter in the spelling of `raw`."""
    if error.param is None:
        return error
    param = ".".join(part for part in (path, spelled(raw, error.param)) if part)
    message = error.message.replace(f"'{error.param}'", f"'{param}'")
    return InvalidRequest(message, param=param, code=error.code)


def case_of(raw: object) -> Case:
    """The case of an object's names, as far as they show it."""
    names = [name for name in cast("JsonObject", raw) if name] if isinstance(raw, dict) else []
    if any(name[0].isupper() for name in names):
        return "pascal"
    return "snake" if any("_" in name for name in names) else "camel"


@lru_cache(1024)
def cased(name: str, case: Case) -> str:
    if case == "snake":
        return name
    pascal = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    return pascal if case == "pascal" else pascal[:1].lower() + pascal[1:]


class _Member(NamedTuple):
    name: str
    kind: type[Struct] | None
    """The struct that it holds, or holds a list of; None: anything else, which is not touched."""


class _Writing(NamedTuple):
    tag: tuple[str, str] | None
    members: tuple[tuple[str, str, object], ...]
    """Attribute, name on the wire, and the value that is omitted."""


_NEVER = object()


def _plain(value: Any, case: Case) -> Any:
    if isinstance(value, Struct):
        return _members(value, case)
    if isinstance(value, tuple):
        return [_plain(element, case) for element in cast("tuple[object, ...]", value)]
    return value


def _members(value: Struct, case: Case) -> JsonObject:
    writing = _writing(type(value), case)
    plain: JsonObject = dict([writing.tag]) if writing.tag else {}
    for attribute, name, omitted in writing.members:
        member: object = getattr(value, attribute)
        if omitted is _NEVER or member != omitted:
            plain[name] = _plain(member, case)
    return plain


@lru_cache(256)
def _writing(kind: type[Struct], case: Case) -> _Writing:
    config = kind.__struct_config__
    tag = (cased(config.tag_field, case), str(config.tag)) if config.tag_field else None
    omits = config.omit_defaults
    members = tuple((field.name, cased(field.name, case), _omitted(field, omits)) for field in fields(kind))
    return _Writing(tag, members)


def _omitted(field: FieldInfo, omits: bool) -> object:
    return field.default if omits and field.default is not NODEFAULT else _NEVER


@lru_cache(256)
def _shape(kind: type[Struct]) -> dict[str, _Member]:
    info = cast("inspect.StructType", inspect.type_info(kind))
    shape = {fold(field.name): _Member(field.name, _struct_in(field.type)) for field in info.fields}
    if info.tag_field is not None:
        shape[fold(info.tag_field)] = _Member(info.tag_field, None)
    return shape


def _canonical(raw: Mapping[str, Any], kind: type[Struct], path: str) -> JsonObject:
    """The members of `kind` under their Python names, at every depth; unknown ones are dropped."""
    shape, found, spelling = _shape(kind), cast("JsonObject", {}), dict[str, str]()
    for key, value in raw.items():
        member = shape.get(fold(key))
        if member is None:
            continue
        if member.name in spelling:
            where = f"{path}{key}"
            message = f"'{where}' and '{path}{spelling[member.name]}' are the same field. Send one of them."
            raise InvalidRequest(message, param=where, code="duplicate_field")
        spelling[member.name] = key
        if value is not None:
            found[member.name] = _inner(value, member.kind, f"{path}{key}")
    return found


def _struct_in(found: inspect.Type) -> type[Struct] | None:
    if isinstance(found, inspect.StructType):
        return found.cls
    if isinstance(found, inspect.VarTupleType):
        return _struct_in(found.item_type)
    if isinstance(found, inspect.UnionType):
        return next((kind for option in found.types if (kind := _struct_in(option))), None)
    return None


def _inner(value: Any, kind: type[Struct] | None, path: str) -> Any:
    if kind is not None and isinstance(value, dict):
        return _canonical(cast("JsonObject", value), kind, f"{path}.")
    if kind is not None and isinstance(value, list):
        elements = cast("list[object]", value)
        return [_inner(element, kind, f"{path}[{index}]") for index, element in enumerate(elements)]
    return value


def _key(raw: object, name: str) -> str | None:
    names = cast("JsonObject", raw) if isinstance(raw, dict) else {}
    return next((key for key in names if fold(key) == fold(name)), None)


def _at(raw: object, index: int) -> object:
    elements = cast("list[object]", raw) if isinstance(raw, list) else []
    return elements[index] if index < len(elements) else None


def _as_bytes(data: bytes | str) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data


_EVENTS: dict[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind for kind in cast("Any", AgentEvent).__args__
}
