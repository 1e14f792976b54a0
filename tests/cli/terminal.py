"""A command in a pseudo-terminal: its screen, and keys."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

SECONDS = 30


@dataclass
class Terminal:
    """A running command. Its complete output is in `seen`."""

    process: "subprocess.Popen[bytes]"
    handle: int
    seen: str = ""
    _at: int = 0
    _raw: bytes = field(default=b"", repr=False)

    def expect(self, *texts: str) -> None:
        """Wait until these texts were written in this order, after the previously expected text."""
        deadline = time.monotonic() + SECONDS
        for text in texts:
            while (found := self.seen.find(text, self._at)) < 0:
                if time.monotonic() > deadline or not self._read():
                    raise AssertionError(f"{text!r} did not appear in {self.seen[self._at :]!r}")
            self._at = found + len(text)

    def send(self, line: str) -> None:
        """Type a line. Wait for the prompt first: earlier input is shown twice."""
        os.write(self.handle, line.encode() + b"\n")

    def end_input(self) -> None:
        """Type Ctrl-D. Wait for the prompt first: only there does it mean the end."""
        os.write(self.handle, b"\x04")

    def interrupt(self) -> None:
        """Type Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def interrupt_until(self, text: str) -> None:
        """Type Ctrl-C repeatedly: readline misses a signal that arrives just before it waits."""
        deadline = time.monotonic() + SECONDS
        while self.seen.find(text, self._at) < 0 and time.monotonic() < deadline:
            self.interrupt()
            until = time.monotonic() + 0.5
            while time.monotonic() < until and self._read():
                pass
        self.expect(text)

    def send_until(self, line: str, text: str) -> None:
        """Type a line repeatedly: keys that are pressed before the command reads single keys are dropped."""
        deadline = time.monotonic() + SECONDS
        while self.seen.find(text, self._at) < 0 and time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            self.send(line)
            until = time.monotonic() + 1.0
            while self.seen.find(text, self._at) < 0 and time.monotonic() < until and self._read():
                pass
        self.expect(text)

    def finish(self, seconds: float = SECONDS) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + seconds
        while self._read() and time.monotonic() < deadline:
            pass
        return self.process.wait(SECONDS)

    def _read(self) -> bool:
        """Read the available output; False at the end of the output."""
        ready, _, _ = select.select([self.handle], [], [], 0.2)
        if not ready:
            return self.process.poll() is None
        try:
            piece = os.read(self.handle, 65536)
        except OSError:  # Linux: the other end is closed
            return False
        self._raw += piece
        self.seen = self._raw.decode(errors="replace").replace("\r\n", "\n")
        return bool(piece)


@contextmanager
def terminal(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "antiphon.cli"),
) -> Generator[Terminal, None, None]:
    """Run `antiphon` with these arguments until the end of the block."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *program, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS)
        os.close(ours)
