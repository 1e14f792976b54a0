"""Upstreams that fail are left alone for a while: a circuit breaker for every backend and model of it.

    closed ── so many failures in a row, or "wait so long" (429) ──> open
    open ──── its time has passed: one turn may try ───────────────> trial
    trial ─── it answered ──> closed;  it failed ──> open

No I/O: the clock is handed in. Only what failed lately is remembered, so a healthy upstream costs nothing.
"""

from typing import Literal, NamedTuple

from msgspec import Struct

from antiphon.errors import BackendBroken, BackendError, BackendPaused, BackendTimeout
from antiphon.protocol.ids import Clock

Phase = Literal["closed", "open", "trial"]


class Key(NamedTuple):
    """A backend by its name, what it calls the model, and what tells two backends of one name apart."""

    backend: str
    model: str
    place: int = 0


MAX_PAUSE = 3600.0
"""Seconds. An upstream that asks for more than this is tried again after it."""
MAX_CIRCUITS = 1000
"""Names of models are the clients' to choose: so many are remembered."""
SOON = 1.0
"""Seconds after which it is worth coming back while a trial is under way."""


class HealthPolicy(Struct, frozen=True):
    """When an upstream is left alone, and for how long. Without `failures`: never."""

    failures: int = 5
    pause: float = 30.0


class Circuit(Struct):
    """One that failed lately. `until`: when a turn may try it, again if it is being tried."""

    key: Key
    phase: Phase = "closed"
    failures: int = 0
    since: float = 0.0
    until: float = 0.0
    limited: bool = False
    said: str = ""


def is_ill(error: BackendError) -> bool:
    """Whether an error before the first word speaks against the backend, not against the request: then
    another one may do better."""
    return error.retryable or isinstance(error, BackendTimeout | BackendBroken)


class Circuits:
    """The circuits of all backends."""

    def __init__(self, policy: HealthPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._troubled: dict[Key, Circuit] = {}

    @property
    def troubled(self) -> bool:
        """Whether there is anything to ask about."""
        return bool(self._troubled)

    def find(self, key: Key) -> Circuit:
        """How it is with this one."""
        return self._troubled.get(key) or Circuit(key)

    def all(self) -> list[Circuit]:
        """Those that failed lately."""
        return list(self._troubled.values())

    def check(self, key: Key) -> None:
        """Raise `BackendPaused` if this one is left alone."""
        circuit = self._troubled.get(key)
        if circuit is not None and circuit.phase != "closed" and self._clock() < circuit.until:
            raise _paused(circuit, self._clock())

    def admit(self, key: Key) -> None:
        """As `check`; who is let in although it was left alone is the trial."""
        self.check(key)
        circuit = self._troubled.get(key)
        if circuit is not None and circuit.phase != "closed":
            circuit.phase = "trial"
            # A trial that never ends must not lock the others out for ever.
            circuit.until = self._clock() + self._policy.pause

    def answered(self, key: Key) -> None:
        """It said something: all is well."""
        self._troubled.pop(key, None)

    def left(self, key: Key) -> None:
        """A turn ended without a verdict, because its client left. If it was the trial, the next one is."""
        circuit = self._troubled.get(key)
        if circuit is not None and circuit.phase == "trial":
            circuit.phase, circuit.until = "open", self._clock()

    def failed(self, key: Key, error: BackendError) -> None:
        """It failed before its first word. A refusal of the request is an answer, too."""
        if not is_ill(error):
            return self.answered(key)
        if not self._policy.failures:
            return None
        circuit = self._troubled.get(key) or self._remember(key)
        circuit.failures += 1
        circuit.said = error.message
        asked = min(error.retry_after or 0.0, MAX_PAUSE) if error.status == 429 else 0.0
        if asked:
            self._open(circuit, asked, limited=True)
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

    def _remember(self, key: Key) -> Circuit:
        if len(self._troubled) >= MAX_CIRCUITS:
            del self._troubled[next(iter(self._troubled))]
        circuit = self._troubled[key] = Circuit(key)
        return circuit


def _paused(circuit: Circuit, now: float) -> BackendPaused:
    backend, model, _ = circuit.key
    since, wait = max(0.0, now - circuit.since), circuit.until - now
    if circuit.phase == "trial":
        wait, when = min(wait, SOON), "is being tried again right now"
    else:
        when = f"is tried again in {wait:.0f} s"
    why = "asked us to wait" if circuit.limited else f"failed {circuit.failures} times in a row"
    return BackendPaused(
        f"The upstream '{backend}' {why} for the model '{model}': it is left alone since {since:.0f} s, and "
        f"{when}. It last said: {circuit.said[:300]}",
        retry_after=wait,
        limited=circuit.limited,
    )
