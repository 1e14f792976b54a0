"""The room for the history of a request: how long it may be, and how much of it tenants hold together."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.service.responses.file_room import SMALL_BYTES, HeldContent

COMPACT_FACTOR = 2
"""How much longer a history may be that is only compacted: the way out of one that has become too long."""


class HistoryLimits(Struct, frozen=True):
    """The longest history that a request may continue."""

    items: int = 50_000
    bytes: int = 64 * 1024 * 1024

    def to_compact(self) -> "HistoryLimits":
        """The limits of a history that is compacted."""
        return HistoryLimits(COMPACT_FACTOR * self.items, COMPACT_FACTOR * self.bytes)


DEFAULT_HISTORY_LIMITS = HistoryLimits()


class HistoryReading(NamedTuple):
    """For a request whose history is read: what it holds, and what is called when the history was read."""

    held: HeldContent
    on_read: Callable[[], None]


class HistoryHold:
    """The history of one request while it is read: see `HistoryRoom`. One of more than `SMALL_BYTES` is added
    to what the request holds. `param` names it in errors."""

    def __init__(self, limits: HistoryLimits, held: HeldContent, param: str) -> None:
        self._limits = limits
        self._held = held
        self._param = param
        self._size = 0
        self._counted = 0

    def check_items(self, count: int) -> None:
        """Raise `InvalidRequest` if these are too many items."""
        if count > self._limits.items:
            raise self._too_long(f"{self._limits.items} items")

    def take(self, size: int) -> None:
        """So many characters were read. Raises `InvalidRequest`, or `Overloaded` if there is no room."""
        self._size += size
        if self._size > self._limits.bytes:
            raise self._too_long(f"{self._limits.bytes} bytes")
        if self._size > SMALL_BYTES:
            more = self._size - self._counted
            self._held.add(more)
            self._counted += more

    def _too_long(self, limit: str) -> InvalidRequest:
        if self._param == "conversation":
            advice = "Begin a new conversation"
        else:
            advice = "Compact it with POST /v1/responses/compact, and begin a new chain with the output"
        message = f"The history of '{self._param}' has more than {limit}. {advice}."
        return InvalidRequest(message, param=self._param, code="history_too_long")
