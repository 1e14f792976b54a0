"""How `codex app-server` is started."""

import asyncio
import re
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import BackendUnreachable
from antiphon.http.redact import redact

# A closed thread is never resumed.
_ARGUMENTS = ("-c", "thread_unload_delay_secs=0", "app-server")


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """How the child is started."""

    command: str
    environment: Mapping[str, str]
    folder: Path
    handshake_timeout: float = 15.0


async def start_process(options: ChildOptions) -> Process:
    """The running program; raises `BackendUnreachable` if it cannot be started."""
    _make_folder(options.folder)
    try:
        return await asyncio.create_subprocess_exec(
            options.command,
            *_ARGUMENTS,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=options.folder,
            env=options.environment,
            start_new_session=True,  # an interrupt from the keyboard is for us; we end it ourselves
        )
    except OSError as error:
        raise BackendUnreachable(
            f"codex cannot be started as '{options.command}': {error.strerror}. For the operator: "
            "install it with `npm install -g @openai/codex`, or set 'codex.command' to its path."
        ) from None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendUnreachable(
            f"The working folder of codex, '{folder}', cannot be made: {error.strerror}. For the operator: "
            "set 'codex.folder' to a folder that this server may write to."
        ) from None


_LINES = 50
_MAX_LINE_CHARACTERS = 2000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r"(?i:error):|\bERROR\b|\bpanicked at\b")
_FRAME = re.compile(r"at |note: |\d+: |stack backtrace")
"""How lines begin that give a location, not a cause."""


class ErrorOutput:
    """The last lines, as they come."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._tail = ""

    def feed(self, data: bytes) -> None:
        *lines, tail = (self._tail + data.decode("utf-8", "replace")).split("\n")
        self._tail = tail[:_MAX_LINE_CHARACTERS]
        self._lines.extend(line.strip()[:_MAX_LINE_CHARACTERS] for line in lines if line.strip())

    def clear(self) -> None:
        self._lines.clear()
        self._tail = ""

    def cause(self) -> str:
        """The last line that looks like an error; else the last one that is not a frame of a backtrace."""
        lines = [_COLOURS.sub("", line) for line in (*self._lines, self._tail.strip()) if line]
        causes = [line for line in lines if not _FRAME.match(line)] or lines
        errors = [line for line in causes if _ERROR.search(line)]
        chosen = (errors or causes)[-1:]
        return redact(chosen[0]) if chosen else "no reason was given"
