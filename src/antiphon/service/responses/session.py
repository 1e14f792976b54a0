"""The memory of a WebSocket connection: responses that are not stored, for its later turns to continue.

The memory belongs to one connection and ends with it.

    ConnectionMemory   the responses of a connection; every stream may continue them
    └── Session        the access of one stream; it drops only responses of that stream

Histories share their items, so a chain of turns costs one reference per item and turn, not a copy.
"""

from msgspec import Struct

from antiphon.protocol.response import Response
from antiphon.store.base import Continuation

MAX_RESPONSES = 256
MAX_ITEMS = 100_000


class _Remembered(Struct, frozen=True):
    """One response, and the stream that created it."""

    continuation: Continuation
    maker: "Session"


class ConnectionMemory:
    """Bounded by responses and by the sum of the items in their histories.

    Responses that were continued are dropped first, the least recently used before others; then the others,
    oldest first. The newest response is never dropped.
    """

    def __init__(self, *, max_responses: int = MAX_RESPONSES, max_items: int = MAX_ITEMS) -> None:
        self._max_responses = max_responses
        self._max_items = max_items
        self._items = 0
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
        self._ends[response.id] = remembered
        self._items += len(remembered.continuation.items)
        while self._is_too_much():
            self.drop(next(iter(self._continued or self._ends)))

    def drop(self, response_id: str) -> None:
        """Forget a response; an unknown id is fine."""
        dropped = self._ends.pop(response_id, None) or self._continued.pop(response_id, None)
        if dropped is not None:
            self._items -= len(dropped.continuation.items)

    def _is_too_much(self) -> bool:
        count = len(self._ends) + len(self._continued)
        return count > 1 and (count > self._max_responses or self._items > self._max_items)


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
        self._memory.add(response, _Remembered(history, self))

    def evict(self, response_id: str) -> None:
        """Drop the parent of a failed continuation if this stream created it. Responses of other streams
        stay."""
        found = self._memory.find(response_id)
        if found is not None and found.maker is self:
            self._memory.drop(response_id)
