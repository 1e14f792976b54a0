"""The cores of the machine that sandboxes run on."""

import os
import random
from collections import Counter


class Cores:
    """Spreads the sandboxes of this process over the cores that it may use itself."""

    def __init__(self) -> None:
        self._sandboxes: Counter[int] = Counter()

    def take(self, count: int) -> tuple[int, ...]:
        """The cores with the fewest sandboxes; fewer, if there are not so many."""
        usable = list(os.sched_getaffinity(0))
        random.shuffle(usable)  # several server processes do not all begin with the same core
        taken = tuple(sorted(usable, key=lambda core: self._sandboxes[core])[:count])
        self._sandboxes.update(taken)
        return taken

    def give_back(self, taken: tuple[int, ...]) -> None:
        """The sandbox has ended."""
        self._sandboxes.subtract(taken)
