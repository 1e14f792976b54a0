"""The process of the hostile tenant: `python -m bench.hostile.attacker PORT KEY OTHER_KEY SECONDS NAME…`.

It runs the attacks together until the time is over, and prints their tallies as JSON.
"""

import asyncio
import json
import os
import resource
import sys
from collections.abc import Iterable
from contextlib import suppress

from bench.hostile.attacks import ATTACKS
from bench.hostile.client import Canceller, HostileClient, Tally
from bench.hostile.registry import Attack

MAX_START_SECONDS = 20.0
REFUSED_PAUSE_SECONDS = 0.05
LOWER_PRIORITY = 5
"""The hostile clients would be on machines of their own: they do not compete with the server for CPU time.
What they time has the ordinary priority."""


async def repeat(attack: Attack, client: HostileClient) -> None:
    """Run an attack again and again; a server that is gone is not an error here."""
    while True:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            await attack.run(client)
        await asyncio.sleep(0 if client.tally.requests else REFUSED_PAUSE_SECONDS)


async def run(names: list[str], port: int, keys: tuple[str, str], seconds: float) -> dict[str, Tally]:
    """Run attacks together, and cancel them at the end. The time begins when each has sent a request."""
    canceller = await Canceller.start(port, keys[0])
    os.nice(LOWER_PRIORITY)
    clients = {name: HostileClient(port, *keys, canceller) for name in names}
    tasks = [
        asyncio.create_task(repeat(ATTACKS[name], client))
        for name, client in clients.items()
        for _ in range(ATTACKS[name].parallel)
    ]
    await _all_began(clients.values())
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=5)
    await canceller.end()
    return {name: client.tally for name, client in clients.items()}


async def _all_began(clients: Iterable[HostileClient]) -> None:
    """Wait for the first requests: some attacks make large bodies before."""
    with suppress(TimeoutError):
        async with asyncio.timeout(MAX_START_SECONDS):
            while not all(client.tally.requests for client in clients):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


def main() -> None:
    """Read the arguments and print the result."""
    port, key, other_key, seconds, *names = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    tallies = asyncio.run(run(names, int(port), (key, other_key), float(seconds)))
    print(json.dumps({name: vars(tally) for name, tally in tallies.items()}))


if __name__ == "__main__":
    main()
