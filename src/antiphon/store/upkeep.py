"""Scripts of upkeep: erasing what has expired, in batches that hold nobody up for long."""

from antiphon.store import chains
from antiphon.store.database import Script, Statement

BATCH = 500
"""The most responses and the most logs that are erased at once."""
DEAD = 3600.0
"""Seconds without a sign of life after which an owner is forgotten; its work was taken over long before."""


def sweep(log_ttl: float, now: int) -> Script[int]:
    """Erase expired responses, old event logs and dead owners; how many it were."""
    expired = yield Statement("expired_responses", (now, BATCH))
    erased = yield from chains.forget_responses([(tenant, name, chain) for tenant, name, chain in expired])
    old = [tuple(row) for row in (yield Statement("old_logs", (log_ttl, BATCH)))]
    if old:
        yield Statement("delete_events", old, many=True)
        yield Statement("forget_log", old, many=True)
    dead = yield Statement("delete_dead_owners", (DEAD,))
    return erased + len(old) + len(dead)


def trim(limit: int) -> Script[None]:
    """Forget the oldest finished responses beyond the limit."""
    [[finished]] = yield Statement("count_finished")
    if finished > limit:
        oldest = yield Statement("oldest_finished", (finished - limit,))
        yield from chains.forget_responses([(tenant, name, chain) for tenant, name, chain in oldest])
