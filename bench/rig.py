"""The setup: the cores, the compiled tools, and the mock upstream."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from bench.processes import ROOT, logged

HERE = ROOT / "bench"
OUT = HERE / "out"
DRAIN = 15.0


@dataclass(frozen=True)
class Cores:
    """One core for the gateway; another for the mock, the load generator and this program."""

    gateway: int
    load: int


@dataclass(frozen=True)
class Rig:
    """A running mock, and the paths of the tools."""

    cores: Cores
    mock_port: int
    mock_session: int

    def control(self, options: str) -> None:
        """Set the mock's options."""
        get(self.mock_port, f"/control?{options}")

    def active(self) -> int:
        """The number of answers that the mock is sending."""
        return self._stats()["active"]

    def received(self) -> int:
        """The total length of the requests that the mock has received."""
        return self._stats()["bytes"]

    def drain(self) -> None:
        """Wait, for a limited time, until the mock has no open requests."""
        self.control("delay_us=0")
        limit = time.monotonic() + DRAIN
        while self.active() and time.monotonic() < limit:
            time.sleep(0.1)

    def _stats(self) -> dict[str, int]:
        return cast("dict[str, int]", json.loads(get(self.mock_port, "/stats")))


def get(port: int, path: str, timeout: float = 5) -> bytes:
    """GET from loopback; raises OSError unless the answer is 200."""
    return exchange(port, "GET", path, timeout=timeout)


def exchange(port: int, method: str, path: str, *, body: bytes | None = None, timeout: float) -> bytes:
    """One request to loopback; raises OSError unless the answer is 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    headers = {"content-type": "application/json", "authorization": "Bearer sk-bench"}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except http.client.HTTPException as error:
        raise OSError(f"{method} {path}: {error!r}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"{method} {path}: {answer.status} {content[:200].decode(errors='replace')}")
    return content


def free_port() -> int:
    """A free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast("tuple[str, int]", probe.getsockname())[1]


def choose_cores() -> Cores:
    """The first two available cores (the same one twice if there is only one)."""
    usable = sorted(os.sched_getaffinity(0))
    return Cores(usable[0], usable[1] if len(usable) > 1 else usable[0])


def compile_tools() -> None:
    """Build mock and load generator into out/, if their source is newer."""
    OUT.mkdir(exist_ok=True)
    for name in ("mock", "load"):
        sources, program = sorted(HERE.glob(f"{name}*.[ch]")), OUT / name
        changed = max(source.stat().st_mtime for source in sources)
        if program.exists() and program.stat().st_mtime > changed:
            continue
        compiler = shutil.which("cc")
        if compiler is None:
            raise RuntimeError("no C compiler: apt-get install gcc libc6-dev")
        units = [source for source in sources if source.suffix == ".c"]
        subprocess.run([compiler, "-O2", "-o", program, *units], check=True, timeout=120)


@contextmanager
def assembled() -> Generator[Rig]:
    """Compile the tools, move this process to the core of the load generator, and run the mock."""
    compile_tools()
    cores = choose_cores()
    os.sched_setaffinity(0, {cores.load})
    port = free_port()
    with logged([str(OUT / "mock"), str(port)], core=cores.load, log=OUT / "mock.log") as process:
        rig = Rig(cores, port, process.pid)
        _await_mock(rig)
        yield rig


def _await_mock(rig: Rig) -> None:
    limit = time.monotonic() + 5
    while True:
        try:
            rig.active()
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.02)
        else:
            return
