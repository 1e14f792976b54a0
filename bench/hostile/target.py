"""The attacked server with its upstream and two tenants, and a watch on its memory."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.processes import ROOT, end_session, environment
from bench.procfs import resident_mb

START_TIMEOUT_SECONDS = 30.0
ALIVE_TIMEOUT_SECONDS = 5.0
ATTACKER_TIMEOUT_SECONDS = 60.0
"""For its start and its end."""
MAX_MEMORY_MB = 400.0
"""The ceiling that the server is given."""
MEMORY_LIMIT_MB = 1500.0
"""A server that takes more is killed, so that the machine survives."""
SAMPLE_SECONDS = 0.05
PREFERENCE = 10
"""As a difference of niceness."""
PYTHON = (sys.executable, "-m")


def on_server_core() -> tuple[str, ...]:
    """The start of a command that runs on the core of the server: nothing of the bench competes with it."""
    return ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *PYTHON)


def on_client_core() -> tuple[str, ...]:
    """The same for the attackers, their upstream and the probe, which would be on other machines."""
    return ("taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), *PYTHON)


def prefer(process: subprocess.Popen[bytes]) -> None:
    """Let a process go before other work on the machine, where the system allows that. What it starts goes
    first as well."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, -PREFERENCE)
    with suppress(OSError):  # Linux may share CPU time among sessions
        Path(f"/proc/{process.pid}/autogroup").write_text(str(-PREFERENCE))


def variables() -> dict[str, str]:
    """The environment of processes that import this tree."""
    return environment({"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "NO_COLOR": "1"})


class Target:
    """A server process that is started again after it has died."""

    def __init__(self, folder: Path, upstream_port: int, control_port: int) -> None:
        self._folder = folder
        self._log = folder / "server.log"
        self._store = folder / "responses.db"
        self.port = _free_port()
        self.control_port = control_port
        self.upstream_port = upstream_port
        settings = (
            f"[server]\nport = {self.port}\nmax_memory = {int(MAX_MEMORY_MB * 2**20)}\n"
            f'[store]\nurl = "sqlite:{self._store}"\n'
            f'[[upstreams]]\nname = "shared"\nbase_url = "http://127.0.0.1:{upstream_port}/v1"\n'
        )
        (folder / "antiphon.toml").write_text(settings)
        self.hostile_key = self._new_key("hostile")
        self.healthy_key = self._new_key("healthy")
        self._new_store = self._store.read_bytes()
        self._process = self._start()
        self._peak_mb = 0.0
        self._killed = False
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._watch_memory, daemon=True)
        self._watch.start()

    @property
    def died(self) -> str | None:
        """How the process ended; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        return f"server killed at {MEMORY_LIMIT_MB:,.0f} MB" if self._killed else f"server died ({code})"

    def reset_peak(self) -> None:
        """Begin to measure `peak_mb` from here."""
        self._peak_mb = 0.0

    def peak_mb(self) -> float:
        """The greatest memory since `reset_peak`."""
        return max(self._peak_mb, self.memory_mb())

    def memory_mb(self) -> float:
        """Resident memory of the server and its worker processes."""
        return resident_mb(self._process.pid)

    def alive(self) -> bool:
        """Whether it answers `GET /healthz`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ALIVE_TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def restart(self) -> None:
        """Start it again, with a store that holds nothing but the keys: unfinished work would be resumed."""
        self.stop()
        for path in self._folder.glob("responses.db*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        self._store.write_bytes(self._new_store)
        self._killed = False
        self._process = self._start()

    def close(self) -> None:
        """End the server and the watch on its memory."""
        self._closed.set()
        self._watch.join()
        self.stop()

    def stop(self) -> None:
        """End it with everything that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        end_session(self._process)

    def _new_key(self, tenant: str) -> str:
        made = subprocess.run(
            [*PYTHON, "antiphon.cli", "keys", "create", "--tenant", tenant],
            cwd=self._folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return made.stdout.strip()

    def _environment(self) -> dict[str, str]:
        return {**variables(), "XDG_DATA_HOME": str(self._folder / "data")}

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [*on_server_core(), "antiphon.cli", "serve"],
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        prefer(process)
        limit = time.monotonic() + START_TIMEOUT_SECONDS
        while not self.alive():
            if process.poll() is not None or time.monotonic() > limit:
                end_session(process)
                raise RuntimeError(f"the server did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)
        return process

    def _watch_memory(self) -> None:
        while not self._closed.wait(SAMPLE_SECONDS):
            memory = self.memory_mb()
            self._peak_mb = max(self._peak_mb, memory)
            if memory > MEMORY_LIMIT_MB and self._process.poll() is None:
                self._killed = True
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)


@contextmanager
def attacked_server(folder: Path) -> Generator[Target]:
    """A server with its upstream and the control, for the duration of the block."""
    with (
        _helper(on_client_core(), "upstream") as upstream_port,
        _helper(on_server_core(), "control") as control_port,
    ):
        target = Target(folder, upstream_port, control_port)
        try:
            yield target
        finally:
            target.close()


@contextmanager
def _helper(python: tuple[str, ...], name: str) -> Generator[int]:
    """A server of this package that prints its port."""
    process = subprocess.Popen(
        [*python, f"bench.hostile.{name}"],
        env=variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    prefer(process)
    try:
        assert process.stdout is not None
        with process.stdout as output:
            yield int(output.readline())
    finally:
        end_session(process)


def run_attacker(target: Target, names: list[str], seconds: float) -> dict[str, dict[str, object]]:
    """Run attacks together in a process of their own; their tallies."""
    arguments = (str(target.port), target.hostile_key, target.healthy_key, str(seconds), *names)
    process = subprocess.Popen(
        [*on_client_core(), "bench.hostile.attacker", *arguments],
        env=variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    prefer(process)
    try:
        output, _ = process.communicate(timeout=seconds + ATTACKER_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return {}
    finally:
        end_session(process)
    return json.loads(output) if process.returncode == 0 else {}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
