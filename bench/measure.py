"""One measurement: the load generator against a running gateway, with CPU, memory and noise."""

import json
import subprocess
import time
from dataclasses import asdict, dataclass
from typing import cast

from bench.gateway import Gateway, body_of
from bench.processes import session
from bench.procfs import cpu_seconds, foreign_seconds, memory_mb
from bench.rig import OUT, Rig, exchange
from bench.scenarios import JSON_END, Scenario

Metrics = dict[str, float]
CALM = 0.1
CALM_LIMIT = 15.0


@dataclass(frozen=True)
class Row:
    """The result of one measurement."""

    contender: str
    scenario: str
    round: int
    metrics: Metrics
    fault: str = ""

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self)) + "\n"


class LoadFailed(Exception):
    """The load generator failed."""


@dataclass(frozen=True)
class Clocks:
    """Elapsed seconds, CPU seconds of the gateway, and CPU seconds of processes outside the benchmark."""

    passed: float
    used: float
    foreign: float


def measure(gateway: Gateway, scenario: Scenario, rig: Rig) -> tuple[Metrics, str]:
    """Run a scenario once; return the numbers, and the first wrong answer, if any."""
    rig.control(scenario.control())
    command = _command(gateway, scenario)
    with session(command, core=rig.cores.load, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as load:
        assert load.stderr is not None
        load.stderr.readline()  # the warm-up is over, or the generator has ended
        ours = {rig.mock_session, load.pid, gateway.session or rig.mock_session}
        before = _clocks(gateway, ours)
        held = _watch(gateway, scenario, rig) if scenario.kind_name == "hold" else {}
        metrics, fault = _report(load, scenario)
        after = _clocks(gateway, ours)
    if gateway.session is not None:
        metrics["memory_mb"] = memory_mb(gateway.session)
    metrics |= _usage(metrics, before, after) | held
    _calm_down(gateway, rig)
    return metrics, fault


def _command(gateway: Gateway, scenario: Scenario) -> list[str]:
    kind = scenario.kind
    api = gateway.api(kind)
    command = [str(OUT / "load"), str(gateway.port), *_request(gateway, scenario)]
    command += ["-c", str(scenario.connections), "-d", str(kind.seconds), "-w", str(kind.warm_up)]
    command += ["-r", str(kind.warm_up / 2), "-m", api.delta, "-h", kind.header]
    if kind.deltas is None:
        return [*command, "-e", JSON_END]
    return [*command, "-e", api.end, "-k", str(kind.deltas)]


def _request(gateway: Gateway, scenario: Scenario) -> tuple[str, str]:
    """The path, and the file with the body: `-` for a GET."""
    api = gateway.api(scenario.kind)
    path, body = api.path, body_of(api, scenario.kind.body)
    if scenario.kind.work == "create":
        return path, str(body)
    try:
        answer = exchange(gateway.port, "POST", path, body=body.read_bytes(), timeout=30)
    except OSError as error:
        raise LoadFailed(f"nothing to retrieve: {error}") from error
    stored = cast("dict[str, str]", json.loads(answer))
    return f"{path}/{stored['id']}", "-"


def _clocks(gateway: Gateway, ours: set[int]) -> Clocks:
    used = 0.0 if gateway.session is None else cpu_seconds(gateway.session)
    return Clocks(time.monotonic(), used, foreign_seconds(ours))


def _watch(gateway: Gateway, scenario: Scenario, rig: Rig) -> Metrics:
    """The maximum of memory and of open streams."""
    memory, streams = 0.0, 0
    end = time.monotonic() + scenario.kind.seconds - 0.5
    while time.monotonic() < end:
        streams = max(streams, rig.active())
        if gateway.session is not None:
            memory = max(memory, memory_mb(gateway.session))
        time.sleep(0.5)
    return {"memory_mb": memory, "open_streams": streams}


def _report(load: subprocess.Popen[bytes], scenario: Scenario) -> tuple[Metrics, str]:
    try:
        output, errors = load.communicate(timeout=scenario.kind.seconds + 15)
    except subprocess.TimeoutExpired as error:
        raise LoadFailed("the load generator hangs") from error
    if not output:
        raise LoadFailed(errors.decode(errors="replace").strip() or "the load generator died")
    report = cast("dict[str, float | str]", json.loads(output))
    metrics = {name: float(value) for name, value in report.items() if not isinstance(value, str)}
    return metrics, str(report["first_error"]) if metrics["errors"] else ""


def _usage(metrics: Metrics, before: Clocks, after: Clocks) -> Metrics:
    passed = after.passed - before.passed
    used = after.used - before.used
    noise = max(0.0, after.foreign - before.foreign) / passed
    units = metrics["deltas"] or metrics["answers"]
    return {
        "cpu_cores": used / passed,
        "noise_cores": noise,
        **({"cpu_us": used / units * 1e6} if units and used else {}),
    }


def _calm_down(gateway: Gateway, rig: Rig) -> None:
    """Wait, for a limited time, until the gateway is idle, so that it does not affect the next scenario."""
    rig.drain()
    if gateway.session is None:
        return
    limit, interval = time.monotonic() + CALM_LIMIT, 0.3
    used = cpu_seconds(gateway.session)
    while time.monotonic() < limit:
        time.sleep(interval)
        used, earlier = cpu_seconds(gateway.session), used
        if used - earlier < CALM * interval:
            return
