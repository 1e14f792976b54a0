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
PAGE_ROWS = 2000
PAGE_CHARACTERS = 1024 * 1024
"""A page ends with the large item, or with the portion of small ones, that reaches it."""
FIRST_ROWS = 16
ROWS_GROWTH = 4
"""A statement looks at the length of every row, so the first one reads few rows, and the next ones more while
none of them is large."""
MAX_PAGE_PARTS = 50
"""Parts of chains in one page: each takes a statement."""
LARGE_ITEM_BYTES = 2048
"""Larger items are read one by one, so that a page ends before it has too many of them."""
MAX_LONG_READS = 2
"""Histories of more than a page that one tenant reads at the same time; others of it wait."""


class Part(Struct, frozen=True):
    """The positions of a chain after `after` and before `limit`. `rows`: how many to read at once."""

    chain: str
    limit: int
    after: int = -1
    rows: int = FIRST_ROWS


class Beginning(Struct, frozen=True):
    """The beginning of a history, and the parts that are not read yet. `length`: the most items that all of
    it has."""

    continuation: Continuation
    length: int
    rest: Sequence[Part] = ()


def begin(tenant: str, at: Position) -> Script[Beginning]:
    """The first page of what is before a position, oldest first."""
    path = yield Statement("path", (tenant, *at))
    parts = [Part(chain, limit) for chain, limit in reversed(path)]
    page = _Page(FIRST_PAGE_ROWS)
    rest = yield from page.read(tenant, parts)
    items, private = items_with_private(page.found)
    return Beginning(Continuation(items, (), private, size=page.size), at.pos, rest)


class _Page:
    """The rows of a page, and their characters."""

    def __init__(self, max_rows: int) -> None:
        self.found: list[Row] = []
        self.size = 0
        self._max_rows = max_rows

    def read(self, tenant: str, parts: Sequence[Part]) -> Script[Sequence[Part]]:
        """Read until the page is full; what is left of the parts."""
        for index, part in enumerate(parts):
            if index == MAX_PAGE_PARTS or self._is_full:
                return parts[index:]
            left = yield from self._read_part(tenant, part)
            if left is not None:
                return [left, *parts[index + 1 :]]
        return ()

    @property
    def _is_full(self) -> bool:
        return len(self.found) >= self._max_rows or self.size >= PAGE_CHARACTERS

    def _read_part(self, tenant: str, part: Part) -> Script[Part | None]:
        while not self._is_full:
            wanted = min(part.rows, self._max_rows - len(self.found))
            args = (tenant, part.chain, part.limit, part.after, wanted, LARGE_ITEM_BYTES)
            rows = yield Statement("history_page", args)
            bodies = [row[1] for row in rows]
            if not (all_small := all(bodies)):
                left = yield from self._add_large(tenant, part, rows)
                if left is not None:
                    return left
            else:
                self.found += rows
                self.size += sum(map(len, bodies))
            if len(rows) < wanted:
                return None
            part = replace(part, after=rows[-1][3], rows=wanted * ROWS_GROWTH if all_small else wanted)
        return part

    def _add_large(self, tenant: str, part: Part, rows: Sequence[Row]) -> Script[Part | None]:
        """Add rows of which some are read by themselves, until the page is full; then what is left."""
        for count, (kind, short, private, pos) in enumerate(rows, 1):
            body = short
            if body is None:
                [[body]] = yield Statement("item_body", (tenant, part.chain, pos))
            self.found.append((kind, body, private))
            self.size += len(body)
            if self.size >= PAGE_CHARACTERS:
                return replace(part, after=pos, rows=count)
        return None


class _NextPage(Struct, frozen=True):
    items: Sequence[Item]
    private: PrivateSides
    size: int
    rest: Sequence[Part]


def _next_page(tenant: str, parts: Sequence[Part], pinned: Script[Any]) -> Script[_NextPage]:
    """The next page. `pinned` raises if nothing keeps the items of the history any more."""
    yield from pinned
    page = _Page(PAGE_ROWS)
    rest = yield from page.read(tenant, parts)
    return _NextPage(*items_with_private(page.found), page.size, rest)


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
