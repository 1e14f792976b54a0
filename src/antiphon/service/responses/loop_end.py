"""`LoopEnd`: the limits of time and tokens of a response with hosted tools, over all rounds and attempts."""

import asyncio

from antiphon.protocol.ids import Clock
from antiphon.protocol.response import Usage
from antiphon.service.hosted_tools.calls import HostedLimits
from antiphon.service.responses.earlier_attempt import EarlierAttempt
from antiphon.store.base import Progress
from antiphon.turn.answer_limit import AnswerLimit


class LoopEnd:
    """Ends the answer as incomplete at a limit. What was sent until then is kept."""

    __slots__ = ("_begun_at", "_clock", "_limit", "_limits", "rounds", "until")

    def __init__(
        self, limits: HostedLimits, limit: AnswerLimit, clock: Clock, earlier: EarlierAttempt | None = None
    ) -> None:
        used = None if earlier is None else earlier.progress
        self._limits = limits
        self._limit = limit
        self._clock = clock
        self._begun_at = None if used is None else used.begun_at
        self.rounds = 0 if used is None else used.rounds
        """Rounds that have ended with calls of hosted tools."""
        self.until: float | None = None
        """The time of the event loop when the answer has to end; None: the limits do not apply."""

    def begin(self) -> float:
        """The response has hosted tools: count the time since its first attempt began. The time when it has
        to end."""
        used = max(0.0, self._clock() - self._first_began_at())
        self.until = asyncio.get_running_loop().time() + self._limits.response_seconds - used
        return self.until

    def check_time(self) -> None:
        """End the answer if its time is over. For every batch: a model at work sends heartbeats."""
        if self.until is not None and asyncio.get_running_loop().time() >= self.until:
            self._limit.reach(f"{self._limits.response_seconds:g} s with hosted tools")

    def check_round(self, rounds: int, spent: Usage | None) -> bool:
        """Whether no other round may follow this many with hosted calls."""
        self.rounds = rounds
        self.check_time()
        budget = self._limits.response_tokens
        if self.until is not None and budget and spent is not None and spent.total_tokens >= budget:
            self._limit.reach(f"{budget} tokens with hosted tools")
        return self._limit.reached is not None

    def progress(self, spent: Usage | None) -> Progress:
        """What another attempt has to count."""
        return Progress(self._first_began_at(), self.rounds, spent)

    def _first_began_at(self) -> float:
        """When the first attempt began; this one, if nothing was stored of another."""
        if self._begun_at is None:
            self._begun_at = self._clock()
        return self._begun_at
