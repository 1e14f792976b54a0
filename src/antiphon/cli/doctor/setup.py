"""The checks of the installation, the settings and the address."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from antiphon import __version__
from antiphon.cli.options import Overrides, SettingsOptions
from antiphon.cli.serve.port import ANOTHER_ANTIPHON, explain_port
from antiphon.cli.startup.check import Check, failed, passed, warning
from antiphon.errors import AddressInUse, SettingsError
from antiphon.http.redact import redact
from antiphon.server.process import bind
from antiphon.settings import LOOPBACK, PREFIX, Settings

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


def check_terminal(encoding: str) -> Check | None:
    """A warning if the encoding of the terminal cannot represent every language."""
    if encoding.lower().replace("-", "") == "utf8":
        return None
    return warning("terminal", f"encoding {encoding}", "Set LANG to a UTF-8 locale, or PYTHONUTF8=1.")


SECRETS = frozenset({"api_keys", "key", "api_key", "headers"})


def check_configuration(options: SettingsOptions) -> tuple[Check, Settings | None]:
    """Whether the settings are valid, and the source of each that is not the default."""
    source = _file(options.config)
    try:
        settings = options.load_to_serve()
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
    """Whether the server could listen on its address."""
    server = settings.server
    found = f"{server.host}:{server.port}"
    try:
        bind(server.host, server.port).close()
    except AddressInUse:
        advice = explain_port(settings)
        # A running server is no obstacle to the one that asks its doctor.
        return (warning if ANOTHER_ANTIPHON in advice else failed)("address", f"{found}; in use", advice)
    except SettingsError as error:
        return failed("address", f"{found}; {error}", "Choose another address with server.host.")
    if server.host not in LOOPBACK:
        return warning(
            "address", found, "Put a TLS proxy in front of it: keys and responses are not encrypted."
        )
    return passed("address", found)
