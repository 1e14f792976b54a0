"""The loop of a client's program: each line of JSON requests a scenario, and a line of JSON returns its
result.
"""

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

Act = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class Program:
    """A client and its scenarios; each act is a coroutine `(base_url, params)`."""

    def __init__(self) -> None:
        self.acts: dict[str, Act] = {}

    def can(self, scenario: str) -> Callable[[Act], Act]:
        """Register the decorated function for the scenario."""

        def register(act: Act) -> Act:
            self.acts[scenario] = act
            return act

        return register

    def run(self) -> None:
        """Answer until the input ends. Only results are written to the real standard output."""
        answers, sys.stdout = sys.stdout, sys.stderr
        with asyncio.Runner() as runner:  # one loop for all: some clients reuse their connections
            for line in sys.stdin:
                print(json.dumps(runner.run(self._answer(json.loads(line)))), file=answers, flush=True)

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(60):
                return {"result": await self.acts[request["scenario"]](request["base_url"], request)}
        except Exception:  # noqa: BLE001 -- whatever it is, the test shows it
            return {"raised": traceback.format_exc()}
