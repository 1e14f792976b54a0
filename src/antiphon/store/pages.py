"""Pages: a part of a history, cut out by position.

A history runs through parts of chains. Positions count on along it, so the bounds of a page are two numbers,
and each part that lies between them is one range of an index.
"""

from collections.abc import Sequence

from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.items import Item
from antiphon.protocol.stored_items import item_id
from antiphon.store.base import ItemPage, Page
from antiphon.store.bodies import items_from_rows
from antiphon.store.database import Script, Statement


class Segment(Struct, frozen=True):
    """The positions [start, end) of a chain, as far as they are below the end of the listing."""

    chain: str
    start: int
    end: int


class Listing(Struct, frozen=True):
    """All that can be paged through: the items of the segments below `end`, then those of `tail`."""

    segments: Sequence[Segment]
    end: int
    tail: Sequence[Item] = ()


def path(tenant: str, chain: str | None, end: int) -> Script[list[Segment]]:
    """What a history runs through that ends at this position, oldest first."""
    if chain is None:
        return []
    rows = yield Statement("path", (tenant, chain, end))
    starts = [*(limit for _, limit in rows[1:]), 0]
    segments = [Segment(name, start, limit) for (name, limit), start in zip(rows, starts, strict=True)]
    return segments[::-1]


def cut(tenant: str, listing: Listing, page: Page) -> Script[ItemPage]:
    """One page. `before` alone asks for the page that ends there: it is read backwards."""
    backwards = page.before is not None and page.after is None
    upwards = (page.order == "asc") is not backwards
    low, high = yield from _bounds(tenant, listing, page)
    items = yield from _collect(tenant, listing, (low, high), page.limit + 1, upwards=upwards)
    found = items[: page.limit]
    return ItemPage(found[::-1] if backwards else found, len(items) > page.limit)


def _bounds(tenant: str, listing: Listing, page: Page) -> Script[tuple[int, int]]:
    """The positions between which the page lies, both excluded.

    An id may be there more than once. Then the page is the smaller one, so that paging always ends.
    """
    low, high = -1, listing.end + len(listing.tail)
    ascending = page.order == "asc"
    for param, cursor, is_low in (("after", page.after, ascending), ("before", page.before, not ascending)):
        if cursor is None:
            continue
        places = yield from _places(tenant, listing, cursor)
        if not places:
            message = f"'{param}' names no item of this list: '{cursor}'. Use the id of an item in it."
            raise InvalidRequest(message, param=param, code="invalid_value")
        if is_low:
            low = max(places)
        else:
            high = min(places)
    return low, high


def _places(tenant: str, listing: Listing, cursor: str) -> Script[list[int]]:
    places = [pos for pos, item in enumerate(listing.tail, listing.end) if item_id(item) == cursor]
    ends = {segment.chain: segment.end for segment in listing.segments}
    for chain, pos, hidden_from in (yield Statement("places_of_item", (tenant, cursor))):
        end = ends.get(chain, 0)
        if pos < min(end, listing.end) and (hidden_from is None or hidden_from >= end):
            places.append(pos)
    return places


def _collect(
    tenant: str, listing: Listing, bounds: tuple[int, int], limit: int, *, upwards: bool
) -> Script[list[Item]]:
    """The first items between the bounds, from the one or the other end."""
    low, high = bounds
    tail = [item for pos, item in enumerate(listing.tail, listing.end) if low < pos < high]
    name, segments = (
        ("items_upwards", listing.segments) if upwards else ("items_downwards", listing.segments[::-1])
    )
    items: list[Item] = [] if upwards else tail[::-1]
    for segment in segments:
        if len(items) >= limit:
            break
        below = min(high, segment.end, listing.end)
        if segment.end > low + 1 and segment.start < below:
            args = (tenant, segment.chain, low, below, segment.end, limit - len(items))
            items += items_from_rows((yield Statement(name, args)))
    return (items + tail if upwards else items)[:limit]
