"""Histories: all items before a position, through parts of chains, read in pages.

A page is a script of its own: others get their turn between two pages, and a reader without room stops
early. Short histories have one page.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.items import Item
from antiphon.store.base import NONE_PRIVATE, Continuation, HistoryRoom, PrivateSides
from antiphon.store.bodies import items_with_private
from antiphon.store.chains import Position
from antiphon.store.database import Database, Row, Script, Statement

FIRST_PAGE_ROWS = 250
"""The first page is read at once: every history has one, and it costs no more than other reads."""
PAGE_ROWS = 1000
PAGE_CHARACTERS = 1024 * 1024
"""The item that reaches it is the last one of a page."""
MAX_PAGE_PARTS = 50
"""Parts of chains in one page: each takes a statement."""
LARGE_ITEM_BYTES = 4096
"""Larger items are read one by one, so that a page ends before it has too many of them."""
MAX_LONG_READS = 2
"""Histories of more than a page that one tenant reads at the same time; others of it wait."""


class Part(Struct, frozen=True):
    """The positions of a chain after `after` and before `limit`."""

    chain: str
    limit: int
    after: int = -1


class Beginning(Struct, frozen=True):
    """The beginning of a history, and the parts that are not read yet. `length`: the most items that all of
    it has."""

    continuation: Continuation
    length: int
    rest: Sequence[Part] = ()


class _Rows(Struct, frozen=True):
    """The rows of a page, their characters, and the parts behind them."""

    rows: Sequence[Row]
    size: int
    rest: Sequence[Part]


def begin(tenant: str, at: Position) -> Script[Beginning]:
    """The first page of what is before a position, oldest first."""
    path = yield Statement("path", (tenant, *at))
    parts = [Part(chain, limit) for chain, limit in reversed(path)]
    page = yield from _read(tenant, parts, FIRST_PAGE_ROWS)
    items, private = items_with_private(page.rows)
    return Beginning(Continuation(items, (), private, size=page.size), at.pos, page.rest)


def _read(tenant: str, parts: Sequence[Part], max_rows: int) -> Script[_Rows]:
    rows: list[Row] = []
    size = 0
    for index, part in enumerate(parts):
        wanted = max_rows - len(rows)
        if index == MAX_PAGE_PARTS or wanted <= 0:
            return _Rows(rows, size, parts[index:])
        args = (tenant, part.chain, part.limit, part.after, wanted, LARGE_ITEM_BYTES)
        found = yield Statement("history_page", args)
        for kind, short, private, pos in found:
            body = short
            if body is None:
                [[body]] = yield Statement("item_body", (tenant, part.chain, pos))
            rows.append((kind, body, private))
            size += len(body)
            if size >= PAGE_CHARACTERS:
                return _Rows(rows, size, [replace(part, after=pos), *parts[index + 1 :]])
        if len(found) == wanted:
            return _Rows(rows, size, [replace(part, after=found[-1][3]), *parts[index + 1 :]])
    return _Rows(rows, size, ())


class _Page(Struct, frozen=True):
    items: Sequence[Item]
    private: PrivateSides
    size: int
    rest: Sequence[Part]


def _next_page(tenant: str, parts: Sequence[Part], pinned: Script[Any]) -> Script[_Page]:
    """The next page. `pinned` raises if nothing keeps the items of the history any more."""
    yield from pinned
    page = yield from _read(tenant, parts, PAGE_ROWS)
    return _Page(*items_with_private(page.rows), page.size, page.rest)


class Histories:
    """Reads histories to their ends."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By tenant."""

    async def complete(
        self, tenant: str, beginning: Beginning, room: HistoryRoom, pinned: Callable[[], Script[Any]]
    ) -> Continuation:
        """The complete history. `room` is taken while it is read; `pinned` makes a script that raises if the
        history is gone meanwhile."""
        first = beginning.continuation
        room.check_items(beginning.length)
        room.take(first.size)
        if not beginning.rest:
            return first
        items, size, rest = [*first.items], first.size, beginning.rest
        private = dict(first.private)
        async with self._slots.setdefault(tenant, asyncio.Semaphore(MAX_LONG_READS)):
            while rest:
                page = await self._db.read(_next_page(tenant, rest, pinned()))
                room.take(page.size)
                items += page.items
                private.update(page.private)
                size, rest = size + page.size, page.rest
        return replace(first, items=items, private=private or NONE_PRIVATE, size=size)
