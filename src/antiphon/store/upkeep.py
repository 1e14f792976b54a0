"""Scripts of upkeep: erase expired rows in small batches, so that other writes wait only briefly."""

from antiphon.store import (
    agent_scripts,
    approvals,
    chains,
    chunk_scripts,
    file_scripts,
    traces,
    upload_scripts,
    vector_store_scripts,
)
from antiphon.store.database import Script, Statement

MAX_BATCH_ROWS = 500
"""The most responses, logs and agent runs that one script erases."""
TRACE_LIFETIME_SECONDS = 7 * 24 * 3600.0
"""How long traces are stored."""
FORGET_OWNER_SECONDS = 3600.0
"""An owner without a sign of life for this long is deleted. Others have taken over its jobs long before."""


def sweep(log_ttl: float, now: int, trace_ttl: float = TRACE_LIFETIME_SECONDS) -> Script[int]:
    """Erase expired responses, old event logs and traces, old answers to approval requests, expired agent
    runs, files, uploads and vector stores, and dead owners; return how many."""
    expired = yield Statement("expired_responses", (now, MAX_BATCH_ROWS))
    erased = yield from chains.forget_responses([(tenant, name, chain) for tenant, name, chain in expired])
    old = [tuple(row) for row in (yield Statement("old_logs", (log_ttl, MAX_BATCH_ROWS)))]
    if old:
        yield Statement("delete_events", old, many=True)
        yield Statement("forget_log", old, many=True)
    old_traces = yield from traces.sweep(int(now - trace_ttl), MAX_BATCH_ROWS)
    answers = yield from approvals.sweep(now, MAX_BATCH_ROWS)
    runs = yield Statement("expired_agent_runs", (now, MAX_BATCH_ROWS))
    yield from agent_scripts.forget(runs)
    files = yield from file_scripts.sweep(now)
    uploads = yield from upload_scripts.sweep(now)
    vector_stores = yield from sweep_vector_stores(now)
    dead = yield Statement("delete_dead_owners", (FORGET_OWNER_SECONDS,))
    rows = len(old) + old_traces + answers + len(runs) + len(dead)
    return erased + rows + files + uploads + vector_stores


def sweep_vector_stores(now: int) -> Script[int]:
    """Mark expired vector stores, and erase some of what ended ones and removed files have left; how much."""
    stores = yield from vector_store_scripts.sweep(now)
    return stores + (yield from chunk_scripts.sweep())


def trim(limit: int) -> Script[None]:
    """Delete the oldest finished responses beyond the limit."""
    [[finished]] = yield Statement("count_finished")
    if finished > limit:
        oldest = yield Statement("oldest_finished", (finished - limit,))
        yield from chains.forget_responses([(tenant, name, chain) for tenant, name, chain in oldest])


def trim_agent_runs(limit: int) -> Script[None]:
    """Delete the oldest ended agent runs beyond the limit."""
    [[ended]] = yield Statement("count_ended_agent_runs")
    if ended > limit:
        yield from agent_scripts.forget((yield Statement("oldest_ended_agent_runs", (ended - limit,))))
