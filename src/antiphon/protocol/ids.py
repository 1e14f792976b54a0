"""Ids: a prefix that names the kind, 48 bits of time so that they sort, 128 random bits.

Nothing below the composition root reads a clock or a random source: both are handed in here, once.
"""

from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]
"""Seconds since the epoch."""

Entropy = Callable[[int], bytes]
"""So many random bytes."""


@dataclass(frozen=True, slots=True)
class IdSource:
    """Makes ids such as ``resp_0194f3a6c1b8…``: 12 digits of milliseconds, 32 digits of entropy."""

    clock: Clock
    entropy: Entropy

    def new(self, prefix: str) -> str:
        """One fresh id."""
        milliseconds = int(self.clock() * 1000).to_bytes(6, "big")
        return f"{prefix}_{(milliseconds + self.entropy(16)).hex()}"
