"""`LoopEnd`: the limits of time and tokens of a response with hosted tools, over all of its rounds."""

import asyncio

from antiphon.service.hosted_tools.calls import HostedLimits
from antiphon.turn.answer_limit import AnswerLimit


class LoopEnd:
    """Ends the answer as incomplete at a limit. What was sent until then is kept."""

    __slots__ = ("_limit", "_limits", "until")

    def __init__(self, limits: HostedLimits, limit: AnswerLimit) -> None:
        self._limits = limits
        self._limit = limit
        self.until: float | None = None
        """The time of the event loop when the answer has to end; None: the limits do not apply."""

    def begin(self) -> float:
        """The response has hosted tools: count from now on. The time when it has to end."""
        self.until = asyncio.get_running_loop().time() + self._limits.response_seconds
        return self.until

    def check_time(self) -> None:
        """End the answer if its time is over. For every batch: a model at work sends heartbeats."""
        if self.until is not None and asyncio.get_running_loop().time() >= self.until:
            self._limit.reach(f"{self._limits.response_seconds:g} s with hosted tools")

    def check_round(self, spent_tokens: int) -> bool:
        """Whether no other round may follow."""
        self.check_time()
        budget = self._limits.response_tokens
        if self.until is not None and budget and spent_tokens >= budget:
            self._limit.reach(f"{budget} tokens with hosted tools")
        return self._limit.reached is not None
