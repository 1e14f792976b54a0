"""Containers: what starting one costs, and a run in a warm one.

    python -m bench.containers [RUNS]

The service's own code is measured, without HTTP and without a model: the first run of a container starts its
sandbox, the later ones send `print(1)` to the Python that is running there. The bar for a warm run is 60 ms.
"""

import asyncio
import sys
import time
from statistics import median, quantiles

from antiphon.sandbox.bubblewrap import find_bubblewrap
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.settings import Settings, StoreSettings
from antiphon.wiring.files import open_files
from antiphon.wiring.sources import make_ids

NEW_CONTAINERS = 20
WARM_BAR_MS = 60.0


async def run_ms(containers: Containers, name: str) -> float:
    """The time of a run in the container with this id."""
    began = time.perf_counter()
    result = await containers.run(containers.usable("bench", name), "print(1)")
    assert result.logs == "1\n"
    return (time.perf_counter() - began) * 1000


async def measure(runs: int) -> bool:
    """Print the times; whether warm runs are within the bar."""
    sandbox = find_bubblewrap(None)
    if isinstance(sandbox, str):
        raise SystemExit(sandbox)
    async with open_files(Settings(store=StoreSettings(url="memory:"))) as files:
        limits = ContainerLimits()
        containers = Containers(sandbox, files, make_ids(), time.time, limits)
        first: list[float] = []
        for _ in range(NEW_CONTAINERS):
            made = await containers.create("bench", "auto", automatic=True)
            first.append(await run_ms(containers, made.id))
            await containers.delete("bench", made.id)
        warm = await containers.create("bench", "auto", automatic=True)
        await run_ms(containers, warm.id)
        later = [await run_ms(containers, warm.id) for _ in range(runs)]
        await containers.aclose()
    print(f"new container  {median(first):6.1f} ms (median of {NEW_CONTAINERS})")
    print(
        f"warm container {median(later):6.2f} ms (median of {runs}; p99 {quantiles(later, n=100)[-1]:.2f} ms)"
    )
    return median(later) < WARM_BAR_MS


if __name__ == "__main__":
    sys.exit(not asyncio.run(measure(*map(int, sys.argv[1:2] or ("500",)))))
