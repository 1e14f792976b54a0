"""The loop of a client's program: a line of JSON asks for a scenario, a line of JSON says what came of it."""

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

Act = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class Program:
    """A client and what it can do; each act is a coroutine `(base_url, asks)`."""

    def __init__(self) -> None:
        self.acts: dict[str, Act] = {}

    def can(self, scenario: str) -> Callable[[Act], Act]:
        """The decorated function does the scenario."""

        def keep(act: Act) -> Act:
            self.acts[scenario] = act
            return act

        return keep

    def run(self) -> None:
        """Answer until the input ends. Results go to the real standard output; nobody else writes there."""
        answers, sys.stdout = sys.stdout, sys.stderr
        with asyncio.Runner() as runner:  # one loop for all: some clients keep their connections
            for line in sys.stdin:
                print(json.dumps(runner.run(self._answer(json.loads(line)))), file=answers, flush=True)

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(60):
                return {"result": await self.acts[asked["scenario"]](asked["base_url"], asked)}
        except Exception:  # noqa: BLE001 -- whatever it is, the test shows it
            return {"raised": traceback.format_exc()}
