"""What Codex is told: the provider, the model and the catalogue, as overrides or as a file."""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from antiphon.cli.remote import API_KEY
from antiphon.settings import PREFIX

PROVIDER = "antiphon"
CATALOGUES = "catalogues"
"""The folder in Codex's home in which our catalogues are kept."""
MAX_CATALOGUES = 20
LOG = "antiphon.log"
INSTALL = "npm install -g @openai/codex"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexConfig:
    """A provider, and what to ask it for."""

    base_url: str
    model: str
    websocket: bool = True
    key: bool = False
    """Whether a key is sent."""
    catalogue: Path | None = None
    """The file with the models; without it, Codex asks the server itself."""

    def entries(self) -> dict[str, object]:
        """Every key of Codex's configuration that we set, dotted."""
        provider = f"model_providers.{PROVIDER}"
        entries: dict[str, object] = {
            "model": self.model,
            "model_provider": PROVIDER,
            "web_search": "disabled",
            "show_raw_agent_reasoning": True,
        }
        if self.catalogue is not None:
            entries["model_catalog_json"] = str(self.catalogue)
        entries |= {
            f"{provider}.name": "Antiphon",
            f"{provider}.base_url": self.base_url,
            f"{provider}.wire_api": "responses",
            f"{provider}.supports_websockets": self.websocket,
        }
        if self.catalogue is None:
            # A provider whose key comes from a command is asked for its models; another one is not.
            command, word = ("printenv", API_KEY) if self.key else ("echo", "no-key")
            return {**entries, f"{provider}.auth.command": command, f"{provider}.auth.args": [word]}
        return {**entries, f"{provider}.env_key": API_KEY} if self.key else entries

    def overrides(self) -> list[str]:
        """As arguments of the program."""
        return as_overrides(self.entries())

    def text(self) -> str:
        """As the text of config.toml."""
        tables: dict[str, list[str]] = {}
        for name, value in self.entries().items():
            table, _, key = name.rpartition(".")
            tables.setdefault(table, []).append(f"{key} = {toml_value(value)}")
        return "\n".join(
            "\n".join([*([f"[{table}]"] if table else []), *lines, ""]) for table, lines in tables.items()
        )


def as_overrides(entries: Mapping[str, object]) -> list[str]:
    """Keys and values as arguments of Codex: they go before its configuration files."""
    return [word for name, value in entries.items() for word in ("-c", f"{name}={toml_value(value)}")]


def toml_value(value: object) -> str:
    """A value as TOML writes it. What JSON escapes in a string, TOML escapes alike."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] -- whatever is in the list, we wrote it
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def keep_catalogue(home: Path, body: bytes) -> Path:
    """The file with this catalogue. Its name tells what is in it, so that nobody changes it for another."""
    path = home / CATALOGUES / f"{hashlib.sha256(body).hexdigest()[:16]}.json"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(body)
        fresh.replace(path)
        _trim(path)
    return path


def _trim(latest: Path) -> None:
    """Remove the oldest catalogues. Codex reads its own when it starts, so those of long ago serve nobody."""
    others = [other for other in latest.parent.glob("*.json") if other != latest]
    with contextlib.suppress(OSError):  # another run may have removed it
        for old in sorted(others, key=lambda other: other.stat().st_mtime)[: -(MAX_CATALOGUES - 1)]:
            old.unlink(missing_ok=True)


def codex_environment(ours: Mapping[str, str], home: Path | None) -> dict[str, str]:
    """The environment of Codex. It runs what a model wrote: of our settings it gets the server's key only."""
    environment = {name: value for name, value in ours.items() if not name.startswith(PREFIX)}
    if ours.get(API_KEY):
        environment[API_KEY] = ours[API_KEY]
    if home is not None:
        environment["CODEX_HOME"] = str(home)
    return environment
