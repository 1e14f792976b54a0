"""The memory of a WebSocket connection: responses that are not stored, for its later turns to continue.

The memory belongs to one connection and ends with it.

    ConnectionMemory   the responses of a connection; every stream may continue them
    └── Session        the access of one stream; it drops only responses of that stream

Histories share their items, so a chain of turns costs one reference per item and turn, not a copy. The bytes
of a history count for each response that ends one, because nobody knows which of them is dropped last.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.store.base import Continuation, PrivateSides
from antiphon.tenant_budget import TenantBudget

MAX_RESPONSES = 256
MAX_ITEMS = 100_000
MAX_BYTES = 16 * 1024 * 1024
"""A response that has more is not remembered."""
MAX_CONTINUED_BYTES = 4 * 1024 * 1024
"""Responses that were continued are dropped while all histories together have more bytes than this."""
ITEM_BYTES = 500
"""What an item takes in memory beside its texts."""


class _Remembered(Struct, frozen=True):
    """One response, and the stream that created it."""

    continuation: Continuation
    maker: "Session"
    size: int
    """The bytes of its history."""


class ConnectionMemory:
    """Bounded by responses and by the sums of the items and bytes in their histories, and by the budget of
    all connections.

    Responses that were continued are dropped first, the least recently used before others; then the others,
    oldest first. The newest response is dropped only if it has too many bytes itself.
    """

    def __init__(
        self,
        budget: TenantBudget,
        tenant: str,
        *,
        max_responses: int = MAX_RESPONSES,
        max_items: int = MAX_ITEMS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._budget = budget
        self._tenant = tenant
        self._max_responses = max_responses
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._items = 0
        self._bytes = 0
        self._ends: dict[str, _Remembered] = {}
        self._continued: dict[str, _Remembered] = {}

    def session(self) -> "Session":
        """The session of another stream."""
        return Session(self)

    def find(self, response_id: str) -> _Remembered | None:
        """The remembered response with this id."""
        if response_id in self._continued:
            self._continued[response_id] = self._continued.pop(response_id)  # now the last to be forgotten
            return self._continued[response_id]
        return self._ends.get(response_id)

    def add(self, response: Response, remembered: _Remembered) -> None:
        """Remember a response; the one that it continues has been continued."""
        parent = response.previous_response_id
        if parent in self._ends:
            self._continued[parent] = self._ends.pop(parent)
        if remembered.size > self._max_bytes:
            return
        while not self._budget.charge(self._tenant, remembered.size):
            if not self._ends and not self._continued:
                return
            self._drop_first()
        self._ends[response.id] = remembered
        self._items += len(remembered.continuation.items)
        self._bytes += remembered.size
        while self._is_too_much():
            self._drop_first()

    def drop(self, response_id: str) -> None:
        """Forget a response; an unknown id is fine."""
        dropped = self._ends.pop(response_id, None) or self._continued.pop(response_id, None)
        if dropped is not None:
            self._items -= len(dropped.continuation.items)
            self._bytes -= dropped.size
            self._budget.release(self._tenant, dropped.size)

    def clear(self) -> None:
        """The connection has ended."""
        while self._ends or self._continued:
            self._drop_first()

    def _drop_first(self) -> None:
        self.drop(next(iter(self._continued or self._ends)))

    def _is_too_much(self) -> bool:
        count = len(self._ends) + len(self._continued)
        max_bytes = min(self._max_bytes, MAX_CONTINUED_BYTES) if self._continued else self._max_bytes
        return count > 1 and (
            count > self._max_responses or self._items > self._max_items or self._bytes > max_bytes
        )


class Session:
    """The access of one stream to the memory of its connection."""

    __slots__ = ("_memory",)

    def __init__(self, memory: ConnectionMemory) -> None:
        self._memory = memory

    def recall(self, response_id: str) -> Continuation | None:
        """The continuation of a response of any stream of this connection; None if it is not remembered."""
        found = self._memory.find(response_id)
        return None if found is None else found.continuation

    def remember(self, response: Response, history: Continuation) -> None:
        """Remember a response that is not stored; `history` ends with its own output."""
        parent = response.previous_response_id
        continued = None if parent is None else self._memory.find(parent)
        self._memory.add(response, _Remembered(history, self, _history_bytes(history, continued)))

    def evict(self, response_id: str) -> None:
        """Drop the parent of a failed continuation if this stream created it. Responses of other streams
        stay."""
        found = self._memory.find(response_id)
        if found is not None and found.maker is self:
            self._memory.drop(response_id)


def _history_bytes(history: Continuation, continued: _Remembered | None) -> int:
    """The bytes of a history. Those of the one that it continues were counted before, if it begins with the
    same items: a compaction replaces them."""
    items, private = history.items, history.private
    if continued is None or not _begins_with(items, continued.continuation.items):
        return _bytes_of(items, private)
    earlier = continued.continuation
    added = {name: side for name, side in private.items() if name not in earlier.private}
    return continued.size + _bytes_of(items[len(earlier.items) :], added)


def _begins_with(items: Sequence[Item], earlier: Sequence[Item]) -> bool:
    if len(items) < len(earlier) or not earlier:
        return False
    return items[0] is earlier[0] and items[len(earlier) - 1] is earlier[-1]


def _bytes_of(items: Sequence[Item], private: PrivateSides) -> int:
    texts = len(msgspec.json.encode(items)) + sum(map(len, private.values()))
    return len(items) * ITEM_BYTES + texts
