"""A real `antiphon serve` process on loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """A running server."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def memory_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def stop(self, limit: float = 10) -> int:
        """Send SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def run_server(
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
    port: int | None = None,
) -> Generator[Served, None, None]:
    """Run `antiphon serve` with these options until the end of the block. `python` may have other packages; `port`
    is that of a server before."""
    port, log = port or free_port(), folder / "server.log"
    home = {"XDG_DATA_HOME": str(folder / "data"), "NO_COLOR": "1"}
    command = [python, "-m", "antiphon.cli", "serve", "--port", str(port), *options]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            text=True,
            cwd=folder,
            env={**os.environ, **home, **(environment or {})},
        )
    try:
        wait_until_ready(process, port, log)
        yield Served(process, port, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)


def wait_until_ready(process: subprocess.Popen[str], port: int, log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended: {log.read_text()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    raise AssertionError(f"the server did not start: {log.read_text()}")
