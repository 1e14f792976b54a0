"""Chains: where items are put, and which of them nobody needs any more.

The append rule: whoever goes on from the head of a chain appends to it; whoever goes on from elsewhere, or
comes second, begins a branch. Heads only ever move on, so nobody mistakes one state of a chain for another.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from antiphon.protocol.items import Item
from antiphon.protocol.stored_items import item_id, item_to_text, item_type
from antiphon.store import jobs
from antiphon.store.base import RESPONSE_JOB, PrivateSides
from antiphon.store.database import Script, Statement


class Position(NamedTuple):
    """A place on a chain."""

    chain: str
    pos: int


class AlreadyStored(Exception):
    """The response is there: the answer to an earlier attempt to store it got lost."""


def start(tenant: str, chain: str, length: int, *, named: bool = False) -> Script[Position]:
    """A new chain with room for so many items."""
    if not (yield Statement("start_chain", (tenant, chain, None, None, length, int(named)))):
        raise AlreadyStored
    return Position(chain, 0)


def extend(tenant: str, at: Position, length: int) -> Script[Position | None]:
    """Room at the head of a chain, if `at` is its head."""
    rows = yield Statement("advance_chain", (tenant, at.chain, length, at.pos))
    return at if rows else None


def branch(tenant: str, at: Position, chain: str, length: int) -> Script[Position]:
    """Room on a new chain that goes on from `at`."""
    if not (yield Statement("start_chain", (tenant, chain, at.chain, at.pos, at.pos + length, 0))):
        raise AlreadyStored
    return Position(chain, at.pos)


def put(
    tenant: str, at: Position, items: Sequence[Item], private: PrivateSides, response_id: str | None
) -> Script[None]:
    """Write items, with their private sides, into their room."""
    rows = [
        (
            *(tenant, at.chain, pos, item_id(item), response_id),
            *(item_type(item), item_to_text(item), private.get(item_id(item))),
        )
        for pos, item in enumerate(items, at.pos)
    ]
    if rows:
        yield Statement("add_item", rows, many=True)


def forget_responses(responses: Iterable[tuple[str, str, str | None]]) -> Script[int]:
    """Delete responses, given by tenant, id and chain, and what nobody needs after that; how many it were."""
    responses = list(responses)
    keys = [(tenant, response_id) for tenant, response_id, _ in responses]
    yield from jobs.remove(RESPONSE_JOB, keys)
    touched = sorted({(tenant, chain) for tenant, _, chain in responses if chain is not None})
    # Locked before anything is deleted, and always in the same order: nobody branches off meanwhile.
    for key in touched:
        yield Statement("lock_chain", key)
    yield Statement("delete_response", keys, many=True)
    yield Statement("delete_events", keys, many=True)
    yield Statement("delete_approvals", keys, many=True)
    yield Statement("delete_trace", keys, many=True)
    for tenant, chain in touched:
        yield from erase_unneeded(tenant, chain)
    return len(responses)


def erase_unneeded(tenant: str, chain: str | None) -> Script[None]:
    """Erase the end of a chain that no response and no branch needs; if all is gone, look at its parent."""
    while chain is not None:
        rows = yield Statement("lock_chain", (tenant, chain))
        if not rows:
            return
        parent, named, _ = rows[0]
        [ends] = yield Statement("needed_until", (tenant, chain))
        needed = max((end for end in ends if end is not None), default=None)
        if named:
            yield Statement("erase_hidden_items", (tenant, chain, needed or 0))
            return
        erased = yield Statement("erase_items", (tenant, chain, needed or 0))
        if needed is not None:
            if erased:  # whoever is about to go on from there must notice
                yield Statement("move_head", (tenant, chain))
            return
        yield Statement("delete_chain", (tenant, chain))
        chain = parent
