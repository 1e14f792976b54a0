"""The registry of attacks: a name, a function, and how many run it at the same time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.hostile.client import HostileClient

AttackFunction = Callable[[HostileClient], Awaitable[None]]


@dataclass(frozen=True)
class Attack:
    """A function that is repeated, by `parallel` tasks, until the time is over and it is cancelled."""

    name: str
    run: AttackFunction
    parallel: int


ATTACKS: dict[str, Attack] = {}


def attack(name: str, *, parallel: int = 4) -> Callable[[AttackFunction], AttackFunction]:
    """Register an attack under the name that the table shows."""

    def register(function: AttackFunction) -> AttackFunction:
        if name in ATTACKS:
            raise ValueError(f"there is another attack '{name}'")
        ATTACKS[name] = Attack(name, function, parallel)
        return function

    return register
