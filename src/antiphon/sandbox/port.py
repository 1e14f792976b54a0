"""The port of sandboxes: a session is one running sandbox with a Python process and files in `/mnt/data`."""

from typing import Literal, Protocol

from msgspec import Struct

DATA_FOLDER = "/mnt/data"
SLICE_BYTES = 1024 * 1024
"""Files are read and written in slices of this size."""
MIB = 1024 * 1024


Outcome = Literal["completed", "raised", "timeout", "died"]


class SandboxLimits(Struct, frozen=True, kw_only=True):
    """Limits of one sandbox."""

    memory_bytes: int = 1024 * MIB
    """Of each process, and of all processes together. Files are counted by `disk_bytes`."""
    disk_bytes: int = 64 * MIB
    """Files in `/mnt/data`, and again in `/tmp`. They are kept in memory."""
    files: int = 20_000
    """Files in both folders together, with folders and links. Each uses memory, also if it is empty."""
    processes: int = 32
    """Processes and threads."""
    cores: int = 1
    """Cores of the machine that all its processes together can use."""
    run_seconds: float = 30.0
    """The time of one run."""
    output_bytes: int = 64 * 1024
    """The output of one run; the rest is dropped."""


class SandboxFile(Struct, frozen=True):
    """A file in `/mnt/data`; `name` is relative to that folder."""

    name: str
    size_bytes: int


class RunResult(Struct, frozen=True):
    """The end of a run.

    `raised`: the code has raised an exception; the traceback is in `logs`. `timeout`, `died`: the Python
    process was ended; its variables are lost, its files are not.
    """

    outcome: Outcome
    logs: str
    dropped_bytes: int = 0
    """Output beyond the limit."""
    changed: tuple[SandboxFile, ...] = ()
    """Files that are new or were changed."""


class CommandResult(Struct, frozen=True):
    """The end of a command of a shell."""

    exit_code: int | None
    """None: its time was over."""
    stdout: str
    stderr: str
    dropped_bytes: int = 0
    """Output beyond the limit."""
    changed: tuple[SandboxFile, ...] = ()
    """Files that are new or were changed."""


class SandboxEnded(Exception):
    """The sandbox has ended: it was killed, or it broke a limit. Its files are lost."""


class SandboxFileError(Exception):
    """A file cannot be read or written: it does not exist, the name is invalid, or the disk is full."""


class SandboxSession(Protocol):
    """A running sandbox. Calls wait for each other. Cancelling one about files does not interrupt it."""

    @property
    def running(self) -> bool:
        """Whether it can be used."""
        ...

    async def run(self, code: str) -> RunResult:
        """Run code. Variables of earlier runs are known. Cancelling it ends the sandbox."""
        ...

    async def run_command(self, command: str, seconds: float) -> CommandResult:
        """Run a command of a shell, in the folder of the files. Cancelling it ends the sandbox."""
        ...

    async def write(self, name: str, content: bytes, offset: int = 0) -> None:
        """Write a slice of a file; `offset` 0 begins a new file."""
        ...

    async def read(self, name: str, offset: int = 0) -> bytes:
        """A slice of a file; empty at its end."""
        ...

    async def move(self, name: str, to: str) -> None:
        """Rename a file; it replaces another one of that name."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a file."""
        ...

    async def files(self) -> tuple[SandboxFile, ...]:
        """The files; at most 1,000."""
        ...

    async def close(self) -> None:
        """End it, with all its processes and files."""
        ...


class Sandbox(Protocol):
    """Starts sessions."""

    @property
    def notes(self) -> str:
        """What models must know about its Python; empty if it is a complete one."""
        ...

    @property
    def has_shell(self) -> bool:
        """Whether sessions run commands of a shell."""
        ...

    async def start(self, limits: SandboxLimits) -> SandboxSession:
        """Start a session. Raises `SandboxEnded` if it cannot be started."""
        ...
