"""A running contender: started on its core, timed until it answers, and ended."""

import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import Contender
from bench.processes import logged
from bench.procfs import cpu_seconds, memory_mb
from bench.rig import HERE, OUT, Rig, exchange, free_port, get
from bench.scenarios import APIS, Api, Kind

START_LIMIT = 120.0
SETTLE = 0.5


class NotServing(Exception):
    """The gateway did not start."""


@dataclass(frozen=True)
class Gateway:
    """A contender that listens on `port`. The mock itself (`direct`) has no separate session."""

    contender: Contender
    port: int
    session: int | None
    cold_start_s: float | None
    cold_start_cpu_s: float | None
    idle_mb: float | None

    def api(self, kind: Kind) -> Api:
        """The API for this kind of work."""
        return APIS[kind.api] if kind.api else self.contender.api


def body_of(api: Api, name: str) -> Path:
    """A request body in the form of an API."""
    return HERE / "bodies" / f"{api.bodies}_{name}.json"


@contextmanager
def serving(
    contender: Contender, rig: Rig, label: str = "", extra: Mapping[str, str] | None = None
) -> Generator[Gateway]:
    """Run a contender for the duration of the block. Raises `NotServing`.

    Its state is in out/, on a disk like everything else there: in some systems /tmp is memory.
    """
    if contender.script is None:
        yield Gateway(contender, rig.mock_port, None, None, None, None)
        return
    log = OUT / f"{label or contender.name}.log"
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="work-", dir=OUT) as work:
        given = {**(extra or {}), "PORT": str(port), "UP_PORT": str(rig.mock_port), "WORK": work}
        begin = time.monotonic()
        with logged(["bash", str(contender.script)], core=rig.cores.gateway, log=log, extra=given) as process:
            cold_start = _await_health(contender, port, process, begin, log)
            cold_start_cpu = cpu_seconds(process.pid)
            _ask_once(contender, port)
            time.sleep(SETTLE)
            yield Gateway(contender, port, process.pid, cold_start, cold_start_cpu, memory_mb(process.pid))


def _await_health(
    contender: Contender, port: int, process: subprocess.Popen[bytes], begin: float, log: Path
) -> float:
    """The seconds from the start of the process to the first 200."""
    why = "no answer"
    while time.monotonic() < begin + START_LIMIT:
        if process.poll() is not None:
            raise NotServing(f"it ended with status {process.returncode}: {_last_words(log)}")
        try:
            get(port, contender.health, timeout=10)
        except OSError as error:
            why = str(error)
            time.sleep(0.005)
        else:
            return time.monotonic() - begin
    raise NotServing(f"not ready after {START_LIMIT:.0f} s: {why}")


def _ask_once(contender: Contender, port: int) -> None:
    body = body_of(contender.api, "100").read_bytes()
    try:
        exchange(port, "POST", contender.api.path, body=body, timeout=30)
    except OSError as error:
        raise NotServing(f"its first answer failed: {error}") from error


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "(it said nothing)"
