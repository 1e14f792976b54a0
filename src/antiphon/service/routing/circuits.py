"""Circuit breakers: one per backend and model. A backend that fails repeatedly is paused for a while.

    closed ── repeated failures, or a 429 with Retry-After ──> open
    open ──── the pause has passed: one turn may try ────────> trial
    trial ─── it answered ──> closed;  it failed ──> open

No I/O: the clock is a parameter. Only recent failures are stored, so a healthy upstream costs nothing.
"""

from typing import Literal, NamedTuple

from msgspec import Struct

from antiphon.errors import (
    BackendBroken,
    BackendError,
    BackendPaused,
    BackendTimeout,
    BackendUnreachable,
)
from antiphon.protocol.ids import Clock

Phase = Literal["closed", "open", "trial"]


class Key(NamedTuple):
    """A backend, its name of the model, and a number that separates backends with the same name."""

    backend: str
    model: str
    number: int = 0


MAX_PAUSE_SECONDS = 3600.0
"""A longer Retry-After of an upstream is cut to this."""
MAX_CIRCUITS = 1000
"""Clients choose the names of models, so the number of circuits is bounded."""
TRIAL_RETRY_AFTER_SECONDS = 1.0
"""The Retry-After of clients while a trial is running."""


class HealthPolicy(Struct, frozen=True):
    """After how many failures in a row an upstream is paused (0: never), and for how many seconds."""

    failures: int = 5
    pause: float = 30.0


class Circuit(Struct):
    """The state of a backend and model after a failure. `until`: the time of the next attempt."""

    key: Key
    phase: Phase = "closed"
    failures: int = 0
    since: float = 0.0
    until: float = 0.0
    limited: bool = False
    last_error: str = ""
    """The kind of the last error. Its message is not stored: upstreams quote requests in their errors, and
    this is shown to every tenant."""


def is_backend_fault(error: BackendError) -> bool:
    """Whether the backend caused an error before its first output, not the request: then another backend may
    succeed."""
    return error.retryable or isinstance(error, BackendTimeout | BackendBroken)


class Circuits:
    def __init__(self, policy: HealthPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._failing: dict[Key, Circuit] = {}

    @property
    def any_failing(self) -> bool:
        """Whether there is a circuit to check."""
        return bool(self._failing)

    def find(self, key: Key) -> Circuit:
        """The circuit of this key; a closed one if it did not fail."""
        return self._failing.get(key) or Circuit(key)

    def all(self) -> list[Circuit]:
        """The circuits with recent failures."""
        return list(self._failing.values())

    def check(self, key: Key) -> None:
        """Raise `BackendPaused` while the circuit is open."""
        circuit = self._failing.get(key)
        if circuit is not None and circuit.phase != "closed" and self._clock() < circuit.until:
            raise _paused(circuit, self._clock())

    def admit(self, key: Key) -> None:
        """Like `check`; the first turn after the pause becomes the trial."""
        self.check(key)
        circuit = self._failing.get(key)
        if circuit is not None and circuit.phase != "closed":
            circuit.phase = "trial"
            # A trial that never ends must not block other turns forever.
            circuit.until = self._clock() + self._policy.pause

    def answered(self, key: Key) -> None:
        """The backend produced output: close the circuit."""
        self._failing.pop(key, None)

    def abandoned(self, key: Key) -> None:
        """A turn ended without a result because its client disconnected. If it was the trial, the next turn
        becomes the trial."""
        circuit = self._failing.get(key)
        if circuit is not None and circuit.phase == "trial":
            circuit.phase, circuit.until = "open", self._clock()

    def failed(self, key: Key, error: BackendError) -> None:
        """The turn failed before its first output. A refusal of the request counts as an answer."""
        if not is_backend_fault(error):
            return self.answered(key)
        if not self._policy.failures:
            return None
        circuit = self._failing.get(key) or self._add(key)
        circuit.failures += 1
        circuit.last_error = _kind(error)
        requested = min(error.retry_after or 0.0, MAX_PAUSE_SECONDS) if error.status == 429 else 0.0
        if requested:
            self._open(circuit, requested, limited=True)
        elif circuit.phase == "trial" or (
            circuit.phase == "closed" and circuit.failures >= self._policy.failures
        ):
            self._open(circuit, self._policy.pause, limited=False)
        return None

    def _open(self, circuit: Circuit, pause: float, *, limited: bool) -> None:
        now = self._clock()
        if circuit.phase == "closed":
            circuit.since = now
        circuit.phase, circuit.limited = "open", limited
        circuit.until = max(circuit.until, now + pause) if limited else now + pause

    def _add(self, key: Key) -> Circuit:
        if len(self._failing) >= MAX_CIRCUITS:
            del self._failing[next(iter(self._failing))]
        circuit = self._failing[key] = Circuit(key)
        return circuit


def _kind(error: BackendError) -> str:
    match error:
        case BackendTimeout():
            return "a deadline passed"
        case BackendUnreachable():
            return "no connection"
        case BackendBroken():
            return "an invalid answer"
        case _:
            return f"status {error.status}"


def _paused(circuit: Circuit, now: float) -> BackendPaused:
    backend, model, _ = circuit.key
    since, wait = max(0.0, now - circuit.since), circuit.until - now
    if circuit.phase == "trial":
        wait, when = min(wait, TRIAL_RETRY_AFTER_SECONDS), "an attempt is running"
    else:
        when = f"next attempt in {wait:.0f} s"
    failures = "1 failure" if circuit.failures == 1 else f"{circuit.failures} failures in a row"
    why = "at its own request" if circuit.limited else f"after {failures}"
    return BackendPaused(
        f"The upstream '{backend}' is paused for the model '{model}' {why}, since {since:.0f} s; {when}. "
        f"Its last error: {circuit.last_error}.",
        retry_after=wait,
        limited=circuit.limited,
    )
