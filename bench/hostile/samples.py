"""The samples of the probe process, and their percentiles in a span of time."""

import math
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from bench.hostile.target import Target, on_client_core, prefer, variables
from bench.processes import end_session


class Sample(NamedTuple):
    """One request of the probe."""

    kind: str
    due: float
    seconds: float
    status: int


@dataclass(frozen=True)
class Lag:
    """The probe in a span of time: 99th percentiles in milliseconds, and requests without a 200."""

    healthz_ms: float
    answer_ms: float
    control_ms: float
    """The lag of a server that does nothing: what the machine adds to the others."""
    model_ms: float
    """The same for an answer: that of the model without Antiphon."""
    failures: int
    requests: int

    @property
    def controlled(self) -> tuple[tuple[str, float, float], ...]:
        """Each lag of the server, and what the machine and the model have to do with it."""
        model_ms = max(self.control_ms, self.model_ms)
        return ("healthz", self.healthz_ms, self.control_ms), ("answer", self.answer_ms, model_ms)


def lag_of(samples: Sequence[Sample]) -> Lag:
    """The lag that these samples show."""

    def p99_ms(kind: str) -> float:
        times = sorted(sample.seconds for sample in samples if sample.kind == kind)
        return 1000 * times[math.ceil(0.99 * len(times)) - 1] if times else math.nan

    failures = sum(sample.status != 200 for sample in samples)
    return Lag(
        healthz_ms=p99_ms("healthz"),
        answer_ms=p99_ms("answer"),
        control_ms=p99_ms("control"),
        model_ms=p99_ms("model"),
        failures=failures,
        requests=len(samples),
    )


class Probe:
    """A running probe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._samples: list[Sample] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last one may be cut off
                    kind, due, seconds, status = line.decode().split()
                    self._samples.append(Sample(kind, float(due), float(seconds), int(status)))

    def end(self) -> None:
        """End the process, and read its last samples."""
        end_session(self._process)
        self._reader.join()

    def between(self, began: float, ended: float) -> Lag:
        """The lag in a span of `time.monotonic`."""
        return lag_of([sample for sample in self._samples if began <= sample.due < ended])

    def quiet(self, seconds: float) -> Lag:
        """The lag during the next seconds."""
        began = time.monotonic()
        time.sleep(seconds)
        return self.between(began, time.monotonic())


@contextmanager
def probing(target: Target) -> Generator[Probe]:
    """A probe of the healthy tenant, for the duration of the block."""
    ports = map(str, (target.control_port, target.upstream_port))
    arguments = (str(target.port), target.healthy_key, *ports)
    process = subprocess.Popen(
        [*on_client_core(), "bench.hostile.probe", *arguments],
        env=variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    prefer(process)
    probe = Probe(process)
    try:
        yield probe
    finally:
        probe.end()
