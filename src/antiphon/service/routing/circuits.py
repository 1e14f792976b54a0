"""Circuit breakers: one per backend and model. A backend that fails repeatedly is paused for a while.

    closed ── repeated failures, or a 429 with Retry-After ──> open
    open ──── the pause has passed: one turn may try ────────> trial
    trial ─── it answered ──> closed;  it failed ──> open

Each tenant has its own state, because a request can provoke failures: one tenant must not pause a backend for
the others. It is paused for all tenants when two of them are paused and no turn was answered in between, or
when connections fail repeatedly, which no request can cause. After that pause each tenant may try once.

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
MAX_TENANTS_PER_CIRCUIT = 100
"""Beyond this the backend is paused for all: so many tenants failed, and none was answered in between."""
TRIAL_RETRY_AFTER_SECONDS = 1.0
"""The Retry-After of clients while a trial is running."""


class HealthPolicy(Struct, frozen=True):
    """After how many failures in a row an upstream is paused (0: never), and for how many seconds."""

    failures: int = 5
    pause: float = 30.0


class Circuit(Struct):
    """The state of a backend and model after a failure, for one tenant or for all. `until`: the time of the
    next attempt."""

    key: Key
    phase: Phase = "closed"
    failures: int = 0
    since: float = 0.0
    until: float = 0.0
    limited: bool = False
    last_error: str = ""
    """The kind of the last error. Its message is not stored: upstreams quote requests in their errors, and
    this is shown to every tenant."""


class _Failing(Struct):
    """The circuits of a backend and model that failed since its last answer."""

    everybody: Circuit
    """Counts failed connections."""
    tenants: dict[str, Circuit]
    paused_tenant: str | None = None
    """The only tenant that was paused since the last pause for all; a second one pauses it for all."""

    def worst(self) -> Circuit:
        """The circuit that shows the state of the backend best."""
        if self.everybody.phase != "closed" or not self.tenants:
            return self.everybody
        return max(self.tenants.values(), key=lambda circuit: (circuit.phase != "closed", circuit.failures))


def is_backend_fault(error: BackendError) -> bool:
    """Whether the backend caused an error before its first output, not the request: then another backend may
    succeed."""
    return error.retryable or isinstance(error, BackendTimeout | BackendBroken)


class Circuits:
    def __init__(self, policy: HealthPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._failing: dict[Key, _Failing] = {}

    @property
    def any_failing(self) -> bool:
        """Whether there is a circuit to check."""
        return bool(self._failing)

    def find(self, key: Key) -> Circuit:
        """The circuit of this key, for all tenants or the tenant that fails most; a closed one if it did not
        fail."""
        failing = self._failing.get(key)
        return Circuit(key) if failing is None else failing.worst()

    def all(self) -> list[Circuit]:
        """The circuits with recent failures, one per key."""
        return [failing.worst() for failing in self._failing.values()]

    def check(self, key: Key, tenant: str) -> None:
        """Raise `BackendPaused` while the circuit is open, for all or for this tenant."""
        failing = self._failing.get(key)
        if failing is None:
            return
        now = self._clock()
        for circuit in (failing.everybody, failing.tenants.get(tenant)):
            if circuit is not None and circuit.phase != "closed" and now < circuit.until:
                raise _paused(circuit, now)

    def admit(self, key: Key, tenant: str) -> None:
        """Like `check`; the first turn of the tenant after the pause becomes its trial."""
        self.check(key, tenant)
        failing = self._failing.get(key)
        if failing is None:
            return
        circuit = failing.tenants.get(tenant)
        if failing.everybody.phase != "closed" or (circuit is not None and circuit.phase != "closed"):
            circuit = circuit or _add_tenant(failing, tenant)
            circuit.phase = "trial"
            # A trial that never ends must not block other turns forever.
            circuit.until = self._clock() + self._policy.pause

    def answered(self, key: Key) -> None:
        """The backend produced output: close the circuit for all."""
        self._failing.pop(key, None)

    def abandoned(self, key: Key, tenant: str) -> None:
        """A turn ended without a result because its client disconnected. If it was the trial, the next turn
        becomes the trial."""
        failing = self._failing.get(key)
        circuit = None if failing is None else failing.tenants.get(tenant)
        if circuit is not None and circuit.phase == "trial":
            circuit.phase, circuit.until = "open", self._clock()

    def failed(self, key: Key, error: BackendError, tenant: str) -> None:
        """The turn failed before its first output. A refusal of the request counts as an answer."""
        if not is_backend_fault(error):
            return self._refused(key, tenant)
        if not self._policy.failures:
            return None
        failing = self._failing.get(key) or self._add(key)
        if tenant not in failing.tenants and len(failing.tenants) >= MAX_TENANTS_PER_CIRCUIT:
            self._pause(failing.everybody, self._policy.pause, limited=False)
        own = failing.tenants.get(tenant) or _add_tenant(failing, tenant)
        own.failures += 1
        own.last_error = _kind(error)
        if error.unsent:
            self._count_unsent(failing, own)
        requested = min(error.retry_after or 0.0, MAX_PAUSE_SECONDS) if error.status == 429 else 0.0
        if requested or own.phase == "trial" or (own.phase == "closed" and self._is_limit(own.failures)):
            self._pause(own, requested or self._policy.pause, limited=bool(requested))
            if not error.unsent:
                self._pause_others(failing, own, tenant)
        return None

    def _refused(self, key: Key, tenant: str) -> None:
        """The backend answers this tenant. That closes the circuit of this tenant only: a server can refuse
        requests while its model is down."""
        failing = self._failing.get(key)
        if failing is None:
            return
        own = failing.tenants.get(tenant)
        if own is not None and not (own.limited and own.phase == "open" and self._clock() < own.until):
            del failing.tenants[tenant]  # a pause that the backend asked for stays
        failing.everybody.failures = 0
        if not failing.tenants:
            del self._failing[key]

    def _count_unsent(self, failing: _Failing, own: Circuit) -> None:
        """Connections fail for all tenants alike."""
        everybody = failing.everybody
        everybody.failures += 1
        everybody.last_error = own.last_error
        reopens = everybody.phase != "closed" and own.phase == "trial"
        if reopens or (everybody.phase == "closed" and self._is_limit(everybody.failures)):
            self._pause(everybody, self._policy.pause, limited=False)
            failing.paused_tenant = None

    def _pause_others(self, failing: _Failing, own: Circuit, tenant: str) -> None:
        """Pause the backend for all if this tenant is the second one that is paused."""
        other = None if failing.paused_tenant is None else failing.tenants.get(failing.paused_tenant)
        if other is None or other is own:
            failing.paused_tenant = tenant
            return
        failing.paused_tenant = None
        everybody = failing.everybody
        everybody.failures = max(everybody.failures, own.failures + other.failures)
        everybody.last_error = own.last_error
        # The shorter of two requested pauses: neither tenant decides how long the other one has to wait.
        pause = min(own.until, other.until) - self._clock() if own.limited else self._policy.pause
        self._pause(everybody, max(pause, 0.0), limited=own.limited and other.limited)

    def _is_limit(self, failures: int) -> bool:
        return failures >= self._policy.failures

    def _pause(self, circuit: Circuit, pause: float, *, limited: bool) -> None:
        now = self._clock()
        if circuit.phase == "closed":
            circuit.since = now
        circuit.phase, circuit.limited = "open", limited
        circuit.until = max(circuit.until, now + pause) if limited else now + pause

    def _add(self, key: Key) -> _Failing:
        if len(self._failing) >= MAX_CIRCUITS:
            # Names that one tenant invents must not end the pauses of others.
            paused_least = min(self._failing.items(), key=lambda known: _pause_rank(known[1]))
            del self._failing[paused_least[0]]
        failing = self._failing[key] = _Failing(Circuit(key), {})
        return failing


def _pause_rank(failing: _Failing) -> int:
    """0: nobody is paused; 1: a tenant is; 2: all are."""
    return 2 if failing.everybody.phase != "closed" else int(failing.worst().phase != "closed")


def _add_tenant(failing: _Failing, tenant: str) -> Circuit:
    if len(failing.tenants) >= MAX_TENANTS_PER_CIRCUIT:
        del failing.tenants[next(iter(failing.tenants))]
    circuit = failing.tenants[tenant] = Circuit(failing.everybody.key)
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
