"""`memory:`, a store in the process: fast, bounded, gone with the process."""

from collections import OrderedDict
from collections.abc import Sequence

from antiphon.protocol.items import Item, OpaqueItem
from antiphon.store.base import StoredResponse, item_not_found, response_not_found

Key = tuple[str, str]


class MemoryStore:
    """Keeps the newest `limit` responses; a chain whose beginning was forgotten is not found, never cut."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._responses: OrderedDict[Key, StoredResponse] = OrderedDict()
        self._items: dict[Key, Item] = {}

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        """Keep it, and forget the oldest beyond the limit."""
        self._responses[tenant, stored.response.id] = stored
        for item in _items(stored):
            item_id = _id(item)
            if item_id:
                self._items[tenant, item_id] = item
        while len(self._responses) > self._limit:
            (owner, _), forgotten = self._responses.popitem(last=False)
            for item in _items(forgotten):
                self._items.pop((owner, _id(item)), None)

    async def load(self, tenant: str, response_id: str) -> StoredResponse:
        """One response."""
        stored = self._responses.get((tenant, response_id))
        if stored is None:
            raise response_not_found(response_id, None)
        return stored

    async def history(self, tenant: str, response_id: str) -> Sequence[Item]:
        """All items of the chain that ends with this response."""
        turns: list[StoredResponse] = []
        at: str | None = response_id
        while at is not None:
            stored = self._responses.get((tenant, at))
            if stored is None:
                raise response_not_found(response_id, "previous_response_id")
            turns.append(stored)
            at = stored.parent
        return [item for stored in reversed(turns) for item in _items(stored)]

    async def item(self, tenant: str, item_id: str) -> Item:
        """One stored item."""
        found = self._items.get((tenant, item_id))
        if found is None:
            raise item_not_found(item_id)
        return found

    async def aclose(self) -> None:
        """Nothing to let go of."""


def _items(stored: StoredResponse) -> list[Item]:
    return [*stored.input, *stored.response.output]


def _id(item: Item) -> str:
    found = item.body.get("id") if isinstance(item, OpaqueItem) else item.id
    return found if isinstance(found, str) else ""
