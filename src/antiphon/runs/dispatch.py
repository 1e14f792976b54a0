"""One engine for several kinds of work: the prefix of an id says whose it is."""

from antiphon.runs.base import Work


class Dispatch:
    """Work that hands on. Whoever does a kind of work registers before the first of it is submitted."""

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}

    def register(self, prefix: str, work: Work) -> None:
        """From now on, `work` does what has ids such as ``PREFIX_…``."""
        self._works[prefix] = work

    async def __call__(self, tenant: str, work_id: str) -> None:
        """Do the work that an id stands for. A kind that nobody here does is left to other processes."""
        work = self._works.get(work_id.partition("_")[0])
        if work is not None:
            await work(tenant, work_id)
