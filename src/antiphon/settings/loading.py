"""Reads the settings: `antiphon.toml`, then the environment, then the caller's overrides.

Every key can be set as ``ANTIPHON_SECTION__KEY``; lists and tables are given as JSON there.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from antiphon.errors import SettingsError
from antiphon.settings.problems import SettingsFile, Sources, explain
from antiphon.settings.sections import LOOPBACK, POSTGRES, Settings, UpstreamSettings

PREFIX = "ANTIPHON_"
SECTION_VARIABLES = frozenset({f"{PREFIX}UPSTREAMS", f"{PREFIX}ALIASES", f"{PREFIX}FALLBACKS"})
"""Variables that contain a complete section as JSON."""

STORES = ("memory:", "sqlite:", *POSTGRES)

Tree = dict[str, Any]


def load_settings(
    path: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Mapping[str, object]] | None = None,
    upstreams: tuple[UpstreamSettings, ...] = (),
) -> Settings:
    """Read the file (default: `antiphon.toml` in the current folder, if it exists), the environment and the
    overrides."""
    file = read_configuration(path, environment)
    tree = _parse(file) if file else {}
    _apply_environment(tree, environment)
    _merge(tree, {section: dict(keys) for section, keys in (overrides or {}).items()})
    settings = _convert(tree, file, environment)
    if upstreams:
        settings = msgspec.structs.replace(settings, upstreams=upstreams)
    return check_settings(settings)


def read_configuration(path: Path | None, environment: Mapping[str, str]) -> SettingsFile | None:
    """The file that the settings are read from; None if there is none."""
    path = path or _named_by(environment)
    return _read_file(path) if path else None


def check_settings(settings: Settings) -> Settings:
    """Raise `SettingsError` for settings that are unsafe or would lose state."""
    server, store = settings.server, settings.store
    if not store.url.startswith(STORES) and store.url != "none":
        raise SettingsError(
            f"Unknown store '{store.url}'. Use 'sqlite:PATH', 'postgresql://…', 'memory:' or 'none'."
        )
    if server.host not in LOOPBACK and not server.api_keys and not settings.lasting:
        raise SettingsError(no_keys(server.host))
    if server.workers > 1 and not store.url.startswith((*POSTGRES, "none")):
        raise SettingsError(
            "Several workers need a shared store. Use --store postgresql://… or --store none, or one worker."
        )
    for address in settings.discovery.addresses:
        if not 0 < int(address.rpartition(":")[2]) < 65536:
            raise SettingsError(f"discovery.addresses: '{address}' has no valid port.")
    for label, server in settings.mcp.servers.items():
        if bool(server.url) == bool(server.command):
            raise SettingsError(f"mcp.servers.{label} needs either a url or a command.")
    return settings


def no_keys(host: str) -> str:
    """The error of a server beyond loopback without keys."""
    return (
        f"Refusing to listen on {host} without keys: anybody could use your models. Create one with "
        "`antiphon keys create`, set server.api_keys (ANTIPHON_SERVER__API_KEYS='[\"…\"]'), "
        "or listen on 127.0.0.1."
    )


def _named_by(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(f"{PREFIX}CONFIG")
    if named:
        return Path(named)
    here = Path("antiphon.toml")
    return here if here.is_file() else None


def _read_file(path: Path) -> SettingsFile:
    try:
        return SettingsFile(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"Cannot read the configuration {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"The configuration {path} is not valid TOML: {error}.") from None


def _parse(file: SettingsFile) -> Tree:
    try:
        return tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The configuration {file.path} is not valid TOML: {error}.") from None


def _apply_environment(tree: Tree, environment: Mapping[str, str]) -> None:
    """``ANTIPHON_SERVER__PORT=9000`` sets the key `port` of the table `server`; further `__` lead to inner
    tables. The value of a variable replaces the previous value completely."""
    for name, value in sorted(environment.items()):
        if name in SECTION_VARIABLES or (name.startswith(PREFIX) and "__" in name):
            *path, key = name.removeprefix(PREFIX).lower().split("__")
            table = tree
            for part in path:
                inner: object = table.setdefault(part, {})
                if not isinstance(inner, dict):
                    raise SettingsError(f"{name} sets a key of '{part}', which is not a table.")
                table = cast("Tree", inner)
            table[key] = _read_value(name, value)


def _read_value(name: str, value: str) -> object:
    if value[:1] not in ("[", "{"):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{name} is not valid JSON: {error}.") from None


def _merge(tree: Tree, more: Tree) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            tree[key].update(cast("Tree", value))
        else:
            tree[key] = value


def _convert(tree: Tree, file: SettingsFile | None, environment: Mapping[str, str]) -> Settings:
    try:
        return msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(explain(error, tree, Sources(file, environment, PREFIX))) from None
