"""The scenario `chain`: a server continues a stored chain of 1,000 turns with 4 items each."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.gateway import Gateway, serving
from bench.measure import LoadFailed, Metrics
from bench.processes import ROOT, session
from bench.procfs import foreign_seconds
from bench.rig import OUT, Rig, exchange
from bench.scenarios import Scenario

HISTORY = "history_p50_ms"
RESUMED = "resumed_p50_ms"
ON_DISK = "disk_mb"
PAIRS = 15
BUILD_LIMIT = 120.0
HISTORY_BYTES = 1_000 * 4 * 500
QUESTION = {"model": "mock", "input": "Go on.", "max_output_tokens": 1, "store": False}


@dataclass(frozen=True)
class Chain:
    """The output of the builder: the id of the last turn, the time of a read, the size of the file."""

    last: str
    read_ms: float
    bytes: int


def measure_chain(gateway: Gateway, scenario: Scenario, rig: Rig) -> tuple[Metrics, str]:
    """Build the chain in a new file, serve it, and continue it repeatedly."""
    rig.control(scenario.control())
    ours = {rig.mock_session, gateway.session or rig.mock_session}
    begin, foreign = time.monotonic(), foreign_seconds(ours)
    with tempfile.TemporaryDirectory(prefix="chain-", dir=OUT) as folder:
        file = Path(folder) / "chain.db"
        chain = build_chain(file, rig)
        extra = {"BENCH_STORE": f"sqlite:{file}"}
        with serving(gateway.contender, rig, f"{gateway.contender.name}-chain", extra) as server:
            resumed = _resumed_ms(server, chain, rig)
            noise = foreign_seconds(ours | {server.session or rig.mock_session}) - foreign
    metrics = {HISTORY: chain.read_ms, RESUMED: resumed, ON_DISK: chain.bytes / 2**20}
    return metrics | {"noise_cores": max(0.0, noise) / (time.monotonic() - begin)}, ""


def build_chain(file: Path, rig: Rig, folder: Path = ROOT, extra: Mapping[str, str] | None = None) -> Chain:
    """Build the chain with the source tree in `folder`."""
    command = [sys.executable, "-m", "bench.chain_builder", str(file)]
    with session(
        command,
        core=rig.cores.gateway,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        extra=extra,
        cwd=folder,
    ) as builder:
        try:
            output, errors = builder.communicate(timeout=BUILD_LIMIT)
        except subprocess.TimeoutExpired as error:
            raise LoadFailed("the chain takes too long to build") from error
    if builder.returncode:
        raise LoadFailed(f"no chain: {errors.decode(errors='replace').strip()[-300:]}")
    return Chain(**json.loads(output))


def _resumed_ms(server: Gateway, chain: Chain, rig: Rig) -> float:
    """The additional time of an answer with the complete history."""
    fresh, resumed = QUESTION, QUESTION | {"previous_response_id": chain.last}
    before = rig.received()
    _ask(server, resumed)
    if (got := rig.received() - before) < HISTORY_BYTES:
        raise LoadFailed(f"the upstream got {got:,} bytes, which cannot be the whole history")
    pairs = [(_ask(server, resumed), _ask(server, fresh)) for _ in range(PAIRS)]
    with_history, without = (median(times) for times in zip(*pairs, strict=True))
    return (with_history - without) * 1e3


def _ask(server: Gateway, question: Mapping[str, object]) -> float:
    body = json.dumps(question).encode()
    begin = time.perf_counter()
    try:
        exchange(server.port, "POST", server.contender.api.path, body=body, timeout=30)
    except OSError as error:
        raise LoadFailed(str(error)) from error
    return time.perf_counter() - begin
