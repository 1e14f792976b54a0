"""Codex as a child: it has the terminal, we wait, and its end is ours."""

import asyncio
import contextlib
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.cli.codex_config import INSTALL
from antiphon.errors import SettingsError

PATIENCE = 20.0
"""Seconds within which the program must tell its version."""
_VERSION = re.compile(r"codex\S* (\d+\.\d+\.\d+\S*)")
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)


@dataclass(frozen=True, slots=True)
class Program:
    """The program, and the environment that it is started in."""

    command: str
    environment: Mapping[str, str]

    @property
    def usual_home(self) -> Path:
        """Where it keeps its sessions if nobody says otherwise."""
        named = self.environment.get("CODEX_HOME")
        return Path(named) if named else Path.home() / ".codex"

    def version(self) -> str:
        """What `codex --version` says; `SettingsError` if there is no such program."""
        try:
            told = subprocess.run(
                [self.command, "--version"],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        except OSError as error:
            raise SettingsError(
                f"Codex cannot be started as '{self.command}': {error.strerror}. Install it with "
                f"`{INSTALL}`, or set 'codex.command' (ANTIPHON_CODEX__COMMAND) to its path."
            ) from None
        except subprocess.TimeoutExpired:
            raise SettingsError(f"'{self.command} --version' said nothing for {PATIENCE:g} s.") from None
        version = _VERSION.match(told.stdout.decode(errors="replace"))
        if told.returncode or version is None:
            raise SettingsError(f"'{self.command}' is not Codex: it tells no version. See 'codex.command'.")
        return version[1]

    async def run(self, arguments: Sequence[str]) -> int:
        """Run it to its end; its exit code. An interrupt from the keyboard reaches it as it reaches us, and
        is its own affair; a request to end is passed on."""
        process = await asyncio.create_subprocess_exec(self.command, *arguments, env=dict(self.environment))
        loop = asyncio.get_running_loop()

        def pass_on(number: signal.Signals) -> None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

        def leave_alone() -> None:
            pass

        with contextlib.suppress(NotImplementedError):  # Windows has no such handlers, nor such signals
            loop.add_signal_handler(signal.SIGINT, leave_alone)
            for number in _PASSED_ON:
                loop.add_signal_handler(number, pass_on, number)
        code = await process.wait()
        return code if code >= 0 else 128 - code
