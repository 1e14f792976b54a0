"""How `codex app-server` is started."""

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import BackendUnreachable

# A thread that we have let go is of no use to anybody.
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
