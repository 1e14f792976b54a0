"""Scripts of upkeep: erasing what has expired, in batches that hold nobody up for long."""

from antiphon.store import agent_scripts, chains
from antiphon.store.database import Script, Statement

BATCH = 500
"""The most responses, logs and runs of agents that are erased at once."""
DEAD = 3600.0
"""Seconds without a sign of life after which an owner is forgotten; its work was taken over long before."""


def sweep(log_ttl: float, now: int) -> Script[int]:
    """Erase expired responses, old event logs, expired runs of agents and dead owners; how many it were."""
    expired = yield Statement("expired_responses", (now, BATCH))
    erased = yield from chains.forget_responses([(tenant, name, chain) for tenant, name, chain in expired])
    old = [tuple(row) for row in (yield Statement("old_logs", (log_ttl, BATCH)))]
    if old:
        yield Statement("delete_events", old, many=True)
        yield Statement("forget_log", old, many=True)
    runs = yield Statement("expired_agent_runs", (now, BATCH))
    yield from agent_scripts.forget(runs)
    dead = yield Statement("delete_dead_owners", (DEAD,))
    return erased + len(old) + len(runs) + len(dead)


def trim(limit: int) -> Script[None]:
    """Forget the oldest finished responses beyond the limit."""
    [[finished]] = yield Statement("count_finished")
    if finished > limit:
        oldest = yield Statement("oldest_finished", (finished - limit,))
        yield from chains.forget_responses([(tenant, name, chain) for tenant, name, chain in oldest])


def trim_agent_runs(limit: int) -> Script[None]:
    """Forget the oldest runs of agents that have ended, beyond the limit."""
    [[ended]] = yield Statement("count_ended_agent_runs")
    if ended > limit:
        yield from agent_scripts.forget((yield Statement("oldest_ended_agent_runs", (ended - limit,))))
