"""The settings: from which file, which of them differ from the defaults and why, and what they amount to."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from antiphon.cli.checks.base import Check, doubtful, failed, passed
from antiphon.cli.options import Overrides, SettingsOptions
from antiphon.cli.upstreams import check_rows
from antiphon.errors import SettingsError
from antiphon.http.redact import redact
from antiphon.server.process import bind
from antiphon.settings import LOOPBACK, PREFIX, Settings, UpstreamSettings

SECRETS = frozenset({"api_keys", "key", "api_key", "headers"})
SHORT_KEY = 16


def check_configuration(options: SettingsOptions) -> tuple[Check, Settings | None]:
    """Whether the settings can be read, and where each that is not the default came from."""
    source = _file(options.config)
    try:
        settings = options.load_to_serve()
        check_rows(settings)
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
    """Every setting that is not the default, with its source. Secrets are named, not shown."""
    lines: list[str] = []
    defaults = Settings()
    for section in settings.__struct_fields__:
        ours, theirs = getattr(settings, section), getattr(defaults, section)
        if section == "upstreams" or ours == theirs:
            continue
        if not isinstance(ours, msgspec.Struct):
            lines.append(
                f"{section} = {_shown(section, ours)} ({_source(section, '', overrides, environment)})"
            )
            continue
        for key in ours.__struct_fields__:
            value = getattr(ours, key)
            if value != getattr(theirs, key):
                source = _source(section, key, overrides, environment)
                lines.append(f"{section}.{key} = {_shown(key, value)} ({source})")
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
    """Where the server would listen, and who could use it."""
    server = settings.server
    found = f"{server.host}:{server.port}, keys {'on' if server.api_keys else 'off'}"
    try:
        bind(server.host, server.port).close()
    except (SettingsError, socket.gaierror) as error:
        advice = "If that is not antiphon itself, choose another port with --port or server.port."
        return doubtful("address", f"{found}; {error}", advice)
    if any(len(key) < SHORT_KEY for key in server.api_keys):
        return doubtful(
            "address", found, f"Use keys of at least {SHORT_KEY} characters: short ones are guessed."
        )
    if server.host not in LOOPBACK:
        return doubtful("address", found, "Put TLS in front of it: keys and answers travel in the clear.")
    return passed("address", found)


def name_of(upstream: UpstreamSettings) -> str:
    """How an upstream is called in the report."""
    return f"upstream {upstream.name or upstream.kind}"
