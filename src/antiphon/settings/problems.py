"""Explains why settings are invalid: the file and line or the variable, the key, and the nearest name."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import inspect

from antiphon.settings.sections import Settings
from antiphon.settings.toml_lines import KeyPath, find_line

MAX_LISTED_NAMES = 30
ANY = "..."
"""A key of a table that an error of msgspec does not name."""
Tree = dict[str, Any]
_PLACE = re.compile(r" - at (`key` in )?`(\$[^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$")


class SettingsFile(NamedTuple):
    """The file that was read."""

    path: Path
    text: str


class Sources(NamedTuple):
    """Where settings come from. A variable wins over the file."""

    file: SettingsFile | None
    environment: Mapping[str, str]
    prefix: str


def explain(error: msgspec.ValidationError, tree: Tree, sources: Sources) -> str:
    """One sentence: where it is, which key, what is wrong, and what is valid there."""
    reason = str(error)
    place = _PLACE.search(reason)
    path = _path(place[2]) if place else ()
    owner = _type_at(path)
    path = _named((*path, ANY) if place and place[1] else path, tree, reason)
    reason = reason[: place.start()] if place else reason
    if unknown := _UNKNOWN.match(reason):
        path = (*path, unknown[1])
        reason = f"unknown{_similar(unknown[1], owner)}"
    else:
        reason = reason[:1].lower() + reason[1:] + _valid_values(owner)
    return f"{_where(path, sources)}{render_key(path)}: {reason}"


def render_key(path: KeyPath) -> str:
    """A key as people write it: `[server].port`, `[[upstreams]].base_url`."""
    if len(path) < 2:
        return str(path[0]) if path else "settings"
    section = f"[[{path[0]}]]" if isinstance(path[1], int) else f"[{path[0]}]"
    rest = path[2:] if isinstance(path[1], int) else path[1:]
    return section + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)


def _path(text: str) -> KeyPath:
    steps = [(name, index) for name, index in _STEP.findall(text)]
    return tuple(name or (ANY if index == ANY else int(index)) for name, index in steps)


def _named(path: KeyPath, tree: Tree, reason: str) -> KeyPath:
    """The path with the keys of tables that the error does not name: the first that alone has this error."""
    for place, step in enumerate(path):
        table = _value_at(tree, path[:place])
        if step != ANY or not isinstance(table, dict):
            continue
        for key, value in cast("Tree", table).items():
            alone = _replaced(tree, path[:place], {key: value})
            if _error_of(alone) == reason:
                path = (*path[:place], key, *path[place + 1 :])
                break
    return path


def _error_of(tree: object) -> str:
    try:
        msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _value_at(tree: object, path: KeyPath) -> object:
    for step in path:
        tree = cast("Any", tree)[step]
    return tree


def _replaced(tree: Any, path: KeyPath, value: object) -> object:
    """A copy of the tree with this value at a path."""
    if not path:
        return value
    copied = tree.copy()
    copied[path[0]] = _replaced(tree[path[0]], path[1:], value)
    return copied


def _where(path: KeyPath, sources: Sources) -> str:
    """The source of a key: a variable, or a line of the file."""
    names = [str(step) for step in path]
    for length in range(len(names), 0, -1):
        variable = f"{sources.prefix}{'__'.join(names[:length])}".upper()
        if variable in sources.environment:
            return f"{variable}: "
    if sources.file is None:
        return ""
    line = find_line(sources.file.text, path)
    return f"{sources.file.path}: " if line is None else f"{sources.file.path}:{line}: "


def _type_at(path: KeyPath) -> inspect.Type:
    """The type of the value at a path."""
    kind: inspect.Type = inspect.type_info(Settings)
    for step in path:
        kind = _inner(kind, step)
    return kind


def _inner(kind: inspect.Type, step: str | int) -> inspect.Type:
    match kind:
        case inspect.UnionType():
            structured = (inspect.StructType, inspect.DictType, inspect.VarTupleType)
            found = next((one for one in kind.types if isinstance(one, structured)), None)
            return _inner(found, step) if found is not None else inspect.AnyType()
        case inspect.StructType():
            return next((field.type for field in kind.fields if field.name == step), inspect.AnyType())
        case inspect.DictType():
            return kind.value_type
        case inspect.VarTupleType():
            return kind.item_type
        case _:
            return inspect.AnyType()


def _fields(kind: inspect.Type) -> list[str]:
    if isinstance(kind, inspect.UnionType):
        return [name for one in kind.types for name in _fields(one)]
    return [field.name for field in kind.fields] if isinstance(kind, inspect.StructType) else []


def _similar(name: str, owner: inspect.Type) -> str:
    """The nearest valid name: of this table, or the same in another one; else all names of this table."""
    known = _fields(owner)
    near = get_close_matches(name.lower(), known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    root = inspect.type_info(Settings)
    assert isinstance(root, inspect.StructType)
    sections = [field.name for field in root.fields if name in _fields(field.type)]
    if sections:
        return f" here; did you mean [{sections[0]}].{name}?"
    listed = ", ".join(known[:MAX_LISTED_NAMES])
    return f"; valid: {listed}{', …' if len(known) > MAX_LISTED_NAMES else ''}." if listed else "."


def _valid_values(kind: inspect.Type) -> str:
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    values = [str(value) for one in kinds if isinstance(one, inspect.LiteralType) for value in one.values]
    if isinstance(kind, inspect.DictType) and isinstance(kind.key_type, inspect.LiteralType):
        values = [str(value) for value in kind.key_type.values]
    return f"; valid: {', '.join(values)}." if values else "."
