"""`Check`, and the checks of the installation and the settings."""

import os
import platform
import socket
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon import __version__
from antiphon.cli.models import check_upstreams
from antiphon.cli.options import Overrides, SettingsOptions
from antiphon.cli.serve.port import explain_port
from antiphon.errors import AddressInUse, SettingsError
from antiphon.http.redact import redact
from antiphon.server.process import bind
from antiphon.settings import LOOPBACK, PREFIX, Settings, UpstreamSettings

Status = Literal["ok", "warning", "failed"]


class Check(Struct, frozen=True, omit_defaults=True):
    """The result of one check. `advice` is one sentence; it is empty if the status is ok."""

    name: str
    status: Status
    found: str
    advice: str = ""


def passed(name: str, found: str) -> Check:
    return Check(name, "ok", found)


def warning(name: str, found: str, advice: str) -> Check:
    return Check(name, "warning", found, advice)


def failed(name: str, found: str, advice: str) -> Check:
    return Check(name, "failed", found, advice)


PACKAGES = ("click", "cryptography", "httptools", "jsonschema-rs", "msgspec", "rich", "uvicorn")
"""Required packages; the engine of the embedded model is optional and checked separately."""


def check_python() -> Check:
    return passed(
        "python", f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    )


def check_packages() -> Check:
    found = {name: _version(name) for name in PACKAGES}
    missing = [name for name, number in found.items() if number is None]
    text = ", ".join(
        [f"antiphon {__version__}", *(f"{name} {number}" for name, number in found.items() if number)]
    )
    if missing:
        return failed("packages", f"{text}; missing: {', '.join(missing)}", "Install antiphon again.")
    return passed("packages", text)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_folder(name: str, folder: Path) -> Check:
    """Whether the folder is writable, or can be created. It is not created for this check."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        advice = f"Make {nearest} writable for this user, or set HOME or XDG_DATA_HOME to a folder that is."
        return failed(name, f"{folder}: {error.strerror}", advice)
    return passed(name, str(folder) if nearest == folder else f"{folder} (will be created)")


def check_terminal(encoding: str) -> Check | None:
    """A warning if the encoding of the terminal cannot represent every language."""
    if encoding.lower().replace("-", "") == "utf8":
        return None
    return warning("terminal", f"encoding {encoding}", "Set LANG to a UTF-8 locale, or PYTHONUTF8=1.")


SECRETS = frozenset({"api_keys", "key", "api_key", "headers"})
MIN_KEY_CHARACTERS = 16


def check_configuration(options: SettingsOptions) -> tuple[Check, Settings | None]:
    """Whether the settings are valid, and the source of each that is not the default."""
    source = _file(options.config)
    try:
        settings = options.load_to_serve()
        check_upstreams(settings)
    except SettingsError as error:
        return failed("configuration", f"from {source}", error.message), None
    differences = _differences(settings, options.overrides_to_serve(), os.environ)
    lines = [f"from {source}", *differences, *_upstreams(settings, options)]
    return passed("configuration", "\n".join(lines)), settings


def _file(config: Path | None) -> str:
    if config is not None:
        return f"{config} (--config)"
    named = os.environ.get(f"{PREFIX}CONFIG")
    if named:
        return f"{named} ({PREFIX}CONFIG)"
    return "antiphon.toml in this folder" if Path("antiphon.toml").is_file() else "no file"


def _differences(settings: Settings, overrides: Overrides, environment: Mapping[str, str]) -> list[str]:
    """Every setting that is not the default, with its source. Secrets are hidden."""
    lines: list[str] = []
    defaults = Settings()
    for section in settings.__struct_fields__:
        value, default = getattr(settings, section), getattr(defaults, section)
        if section == "upstreams" or value == default:
            continue
        if not isinstance(value, msgspec.Struct):
            lines.append(
                f"{section} = {_shown(section, value)} ({_source(section, '', overrides, environment)})"
            )
            continue
        for key in value.__struct_fields__:
            ours = getattr(value, key)
            if ours != getattr(default, key):
                source = _source(section, key, overrides, environment)
                lines.append(f"{section}.{key} = {_shown(key, ours)} ({source})")
    return lines


def _upstreams(settings: Settings, options: SettingsOptions) -> list[str]:
    if not settings.upstreams:
        return []
    named_here = options.upstream is not None or options.upstream_kind is not None
    source = "command line" if named_here else _source("upstreams", "", {}, os.environ)
    return [f"upstreams: {len(settings.upstreams)} ({source})"]


def _source(section: str, key: str, overrides: Overrides, environment: Mapping[str, str]) -> str:
    variable = f"{PREFIX}{section}{'__' if key else ''}{key}".upper()
    if key in overrides.get(section, {}):
        return "command line"
    return variable if variable in environment else "file"


def _shown(key: str, value: object) -> str:
    return "(hidden)" if key in SECRETS else redact(msgspec.json.encode(value).decode(), limit=120)


def check_address(settings: Settings) -> Check:
    """Whether the server could listen on its address, and whether its keys are safe."""
    server = settings.server
    found = f"{server.host}:{server.port}, keys {'on' if server.api_keys else 'off'}"
    try:
        bind(server.host, server.port).close()
    except AddressInUse:
        return warning("address", f"{found}; in use", explain_port(settings))
    except (SettingsError, socket.gaierror) as error:
        return warning("address", f"{found}; {error}", "Choose another address with server.host.")
    if any(len(key) < MIN_KEY_CHARACTERS for key in server.api_keys):
        return warning(
            "address",
            found,
            f"Use keys of at least {MIN_KEY_CHARACTERS} characters: short ones can be guessed.",
        )
    if server.host not in LOOPBACK:
        return warning(
            "address", found, "Put a TLS proxy in front of it: keys and responses are not encrypted."
        )
    return passed("address", found)


def name_of(upstream: UpstreamSettings) -> str:
    """The name of an upstream in the report."""
    return f"upstream {upstream.name or upstream.kind}"
