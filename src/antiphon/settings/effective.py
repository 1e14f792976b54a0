"""The settings in force, each with the place that it comes from, for operators; secrets are hidden."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.known_secrets import KNOWN_SECRETS, without_url_secrets
from antiphon.settings.field_docs import field_docs
from antiphon.settings.loading import PREFIX, read_configuration
from antiphon.settings.sections import Settings
from antiphon.settings.toml_lines import KeyPath, find_line

HIDDEN_VALUE = "•••"
_SECRET_KEYS = frozenset({"api_key", "api_keys", "authorization", "env", "headers", "key", "options"})
_MISSING = object()


class EffectiveSetting(Struct, frozen=True, kw_only=True):
    """One setting. `where`: the variable, or the file with the line; `doc`: what it means."""

    name: str
    value: Any
    secret: bool
    source: Literal["default", "file", "env", "option"]
    where: str | None = None
    doc: str | None = None


def effective_settings(
    settings: Settings, path: Path | None, environment: Mapping[str, str]
) -> list[EffectiveSetting]:
    """Every setting. A value that neither the file nor a variable nor the default explains is an option of
    the command."""
    file = read_configuration(path, environment)
    try:
        tree = tomllib.loads(file.text) if file is not None else {}
    except tomllib.TOMLDecodeError:
        raise SettingsError("The configuration was changed, and is not valid TOML any more.") from None
    found: list[EffectiveSetting] = []
    for key, value, doc in _leaves((), settings):
        default = _default(key)
        variable = _variable(key, environment)
        shown, secret = _shown(key, value)
        source: Literal["default", "file", "env", "option"] = "option"
        where = None
        if variable is not None:
            source, where = "env", variable
        elif file is not None and _same(_in_tree(tree, key), value):
            line = find_line(file.text, key)
            source, where = "file", f"{file.path}" if line is None else f"{file.path}:{line}"
        elif default is not _MISSING and value == default:
            source = "default"
        found.append(
            EffectiveSetting(name=_name(key), value=shown, secret=secret, source=source, where=where, doc=doc)
        )
    return found


def _leaves(
    key: KeyPath, value: object, doc: str | None = None
) -> Iterator[tuple[KeyPath, object, str | None]]:
    """The settings below a key, with what they mean; structs in tables and lists are opened."""
    if isinstance(value, Struct):
        docs = field_docs(type(value))
        for name in value.__struct_fields__:
            yield from _leaves((*key, name), getattr(value, name), docs.get(name))
    elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
        for place, each in enumerate(cast("tuple[object, ...]", value)):
            yield from _leaves((*key, place), each)
    elif isinstance(value, dict) and value and all(isinstance(each, Struct) for each in value.values()):  # pyright: ignore[reportUnknownVariableType] -- any table
        for name, each in cast("dict[str, object]", value).items():
            yield from _leaves((*key, name), each)
    else:
        yield key, value, doc


def _default(key: KeyPath) -> object:
    value: object = Settings()
    for step in key:
        if isinstance(step, int) or not isinstance(value, Struct) or step not in value.__struct_fields__:
            return _MISSING
        value = getattr(value, step)
    return value


def _in_tree(tree: object, key: KeyPath) -> object:
    for step in key:
        if isinstance(tree, dict) and step in tree:
            tree = cast("dict[Any, object]", tree)[step]
        elif isinstance(tree, list) and isinstance(step, int) and step < len(cast("list[object]", tree)):
            tree = cast("list[object]", tree)[step]
        else:
            return _MISSING
    return tree


def _same(written: object, value: object) -> bool:
    """Whether a value of the file is the one in force."""
    if written is _MISSING:
        return False
    try:
        return msgspec.convert(written, type(value), strict=False) == value
    except (msgspec.ValidationError, TypeError):
        return msgspec.to_builtins(value) == written


def _variable(key: KeyPath, environment: Mapping[str, str]) -> str | None:
    """The variable that sets a key, or a table that it is in."""
    names = [str(step) for step in key]
    for length in range(len(names), 0, -1):
        variable = f"{PREFIX}{'__'.join(names[:length])}".upper()
        if variable in environment:
            return variable
    return None


def _shown(key: KeyPath, value: object) -> tuple[Any, bool]:
    """The value as an operator sees it, and whether it is a secret."""
    secret = any(step in _SECRET_KEYS for step in key)
    if secret:
        return (HIDDEN_VALUE if value else value), True
    if isinstance(value, str):
        return without_url_secrets(KNOWN_SECRETS.scrub(value)), False
    text = msgspec.json.encode(value).decode()
    return msgspec.json.decode(without_url_secrets(KNOWN_SECRETS.scrub(text))), False


def _name(key: KeyPath) -> str:
    first, *rest = key
    return str(first) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)
