"""Start processes, each on a given core and in its own session, and end them in all cases."""

import os
import shutil
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
GRACE = 5.0
Output = int | IO[bytes]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Turns the first signal into SystemExit, but not while a process is being started."""

    def __init__(self) -> None:
        self._held = False
        self._pending: int | None = None

    def install(self) -> None:
        """Handle the signals that end a program."""
        for number in SIGNALS:
            signal.signal(number, self._receive)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        if not self._held:
            raise SystemExit(128 + number)
        self._pending = number

    @contextmanager
    def hold(self) -> Generator[None]:
        """Delay a signal until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._pending is not None:
                raise SystemExit(128 + self._pending)


INTERRUPTION = Interruption()


def _on_core(core: int, command: Sequence[str]) -> list[str]:
    """The command, bound to a core and killed if this process dies."""
    if not (shutil.which("taskset") and shutil.which("setpriv")):
        raise RuntimeError("taskset or setpriv is missing: apt-get install util-linux")
    return ["taskset", "-c", str(core), "setpriv", "--pdeathsig", "TERM", *command]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process without proxies, because all traffic is on loopback, plus `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return kept | dict(extra)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End the process and its group: with SIGTERM, then with SIGKILL."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(GRACE)


@contextmanager
def session(
    command: Sequence[str],
    *,
    core: int,
    stdout: Output,
    stderr: Output,
    extra: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
) -> Generator[subprocess.Popen[bytes]]:
    """Run a command on a core, in its own session, for the duration of the block."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with INTERRUPTION.hold():
            process = subprocess.Popen(
                _on_core(core, command),
                env=environment(extra or {}),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        yield process
    finally:
        if process is not None:
            end_session(process)


@contextmanager
def logged(
    command: Sequence[str], *, core: int, log: Path, extra: Mapping[str, str] | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """The same, with its output in a file."""
    with (
        log.open("wb") as output,
        session(command, core=core, stdout=output, stderr=output, extra=extra) as process,
    ):
        yield process
