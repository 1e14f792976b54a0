"""Codex as a child process: its configuration (as arguments or as a file), its environment, its signals."""

import asyncio
import contextlib
import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from antiphon.cli.options import API_KEY_VARIABLE
from antiphon.errors import SettingsError
from antiphon.settings import PREFIX

PROVIDER = "antiphon"
CATALOGUE_FOLDER = "catalogues"
"""Below Codex's home."""
MAX_CATALOGUES = 20
LOG_FILE = "antiphon.log"
INSTALL_COMMAND = "npm install -g @openai/codex"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexConfig:
    """The provider and the model that Codex uses."""

    base_url: str
    model: str
    websocket: bool = True
    key: bool = False
    """Whether Codex sends a key."""
    catalogue: Path | None = None
    """The file with the models; without it, Codex fetches them from the server."""

    def entries(self) -> dict[str, object]:
        """The keys of Codex's configuration, dotted, with their values."""
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
            # Codex fetches the models of a provider only if the provider's key comes from a command.
            command, argument = ("printenv", API_KEY_VARIABLE) if self.key else ("echo", "no-key")
            return {**entries, f"{provider}.auth.command": command, f"{provider}.auth.args": [argument]}
        return {**entries, f"{provider}.env_key": API_KEY_VARIABLE} if self.key else entries

    def arguments(self) -> list[str]:
        """The configuration as arguments of Codex."""
        return config_arguments(self.entries())

    def text(self) -> str:
        """The configuration as the text of config.toml."""
        tables: dict[str, list[str]] = {}
        for name, value in self.entries().items():
            table, _, key = name.rpartition(".")
            tables.setdefault(table, []).append(f"{key} = {toml_value(value)}")
        return "\n".join(
            "\n".join([*([f"[{table}]"] if table else []), *lines, ""]) for table, lines in tables.items()
        )


def config_arguments(entries: Mapping[str, object]) -> list[str]:
    """Keys and values as arguments of Codex, which take precedence over its configuration files."""
    return [part for name, value in entries.items() for part in ("-c", f"{name}={toml_value(value)}")]


def toml_value(value: object) -> str:
    """A value in TOML, whose strings are escaped as in JSON."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] -- entries() makes the lists
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def save_catalogue(home: Path, body: bytes) -> Path:
    """Write the catalogue to a file named by its digest, so that concurrent starts cannot replace it."""
    path = home / CATALOGUE_FOLDER / f"{hashlib.sha256(body).hexdigest()[:16]}.json"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(body)
        fresh.replace(path)
        _trim(path)
    return path


def _trim(latest: Path) -> None:
    """Remove the oldest catalogues. Codex reads the file at its start only."""
    others = [other for other in latest.parent.glob("*.json") if other != latest]
    with contextlib.suppress(OSError):  # another run may have removed it
        for old in sorted(others, key=lambda other: other.stat().st_mtime)[: -(MAX_CATALOGUES - 1)]:
            old.unlink(missing_ok=True)


def child_environment(ours: Mapping[str, str], home: Path | None) -> dict[str, str]:
    """The environment of Codex. It runs commands that a model wrote, so of our variables it receives only the
    server's key."""
    environment = {name: value for name, value in ours.items() if not name.startswith(PREFIX)}
    if ours.get(API_KEY_VARIABLE):
        environment[API_KEY_VARIABLE] = ours[API_KEY_VARIABLE]
    if home is not None:
        environment["CODEX_HOME"] = str(home)
    return environment


VERSION_TIMEOUT_SECONDS = 20.0
_VERSION = re.compile(r"codex\S* (\d+\.\d+\.\d+\S*)")
_FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)


@dataclass(frozen=True, slots=True)
class Program:
    """The program and its environment."""

    command: str
    environment: Mapping[str, str]

    @property
    def usual_home(self) -> Path:
        """The folder in which Codex stores its sessions by default."""
        named = self.environment.get("CODEX_HOME")
        return Path(named) if named else Path.home() / ".codex"

    def version(self) -> str:
        """The version from `codex --version`; raises `SettingsError` if it cannot be run."""
        try:
            finished = subprocess.run(
                [self.command, "--version"],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=VERSION_TIMEOUT_SECONDS,
                check=False,
            )
        except OSError as error:
            raise SettingsError(
                f"Codex cannot be started as '{self.command}': {error.strerror}. Install it with "
                f"`{INSTALL_COMMAND}`, or set 'codex.command' (ANTIPHON_CODEX__COMMAND) to its path."
            ) from None
        except subprocess.TimeoutExpired:
            raise SettingsError(
                f"'{self.command} --version' did not finish within {VERSION_TIMEOUT_SECONDS:g} s."
            ) from None
        version = _VERSION.match(finished.stdout.decode(errors="replace"))
        if finished.returncode or version is None:
            raise SettingsError(
                f"'{self.command}' is not Codex: it prints no version. Correct 'codex.command'."
            )
        return version[1]

    async def run(self, arguments: Sequence[str]) -> int:
        """Run Codex and return its exit code. SIGTERM and SIGHUP are forwarded; the terminal sends SIGINT to
        Codex as well, so it is ignored here."""
        process = await asyncio.create_subprocess_exec(self.command, *arguments, env=dict(self.environment))
        loop = asyncio.get_running_loop()

        def forward(number: signal.Signals) -> None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

        def ignore() -> None:
            pass

        with contextlib.suppress(NotImplementedError):  # not supported on Windows
            loop.add_signal_handler(signal.SIGINT, ignore)
            for number in _FORWARDED_SIGNALS:
                loop.add_signal_handler(number, forward, number)
        code = await process.wait()
        return code if code >= 0 else 128 - code
