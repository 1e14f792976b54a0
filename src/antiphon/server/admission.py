"""Whether the server takes more work: not while it is overloaded, nor more bodies than it has room for."""

import asyncio
import secrets
from collections import Counter

from msgspec import Struct

from antiphon.errors import BodyTooLarge, Overloaded
from antiphon.memory_use import resident_bytes
from antiphon.protocol.bounds import UNCOUNTED_BYTES, ValueCounter
from antiphon.protocol.large_body import LARGE_BODY_BYTES, MAX_RESTORED_VALUES, Body, LargeBody
from antiphon.server.start_queue import StartQueue

CHEAP_BODY_BYTES = 1024
"""A request with a body up to this size starts at once: that takes less time than to let it wait."""
SMALL_BODY_BYTES = 64 * 1024
"""Bodies up to this size are not counted."""
MAX_BODIES_BYTES = 128 * 1024 * 1024
MAX_HELD_BYTES = 512 * 1024 * 1024
COPIES = 5
"""How often a large body is in memory at its peak: received, joined, decoded, encoded for the upstream."""
BODIES_MEMORY_SHARE = 0.6
"""Bodies are received up to this share of the ceiling: running answers and child processes grow, too."""


class Overload(Struct, frozen=True):
    """Why no more work is taken."""

    message: str
    spares_small: bool = False
    """Whether work is taken of tenants that have no large bodies."""


LATE = Overload("The server is overloaded.")
MEMORY_SHORT = Overload("The server has too little memory.", spares_small=True)
MEMORY_FULL = Overload(MEMORY_SHORT.message)


class Admission:
    """Decides about new requests. Requests without a body, such as a cancellation, are always served."""

    def __init__(
        self,
        max_bodies_bytes: int = MAX_BODIES_BYTES,
        max_memory_bytes: int = 0,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self.max_memory_bytes = max_memory_bytes
        """The ceiling of this process; 0: none."""
        self.overload: Overload | None = None
        """Set by the watchdog."""
        self.bodies = BodyBudget(max_bodies_bytes, max_memory_bytes)
        self.held = BodyBudget(max_held_bytes, doing="answered")
        """The large bodies of requests until they are answered."""
        self.starts = StartQueue()

    def check(self, tenant: str) -> None:
        """Raise `Overloaded` if the server takes no more work of this tenant."""
        overload = self.overload
        if overload is None or (overload.spares_small and not self._has_large_bodies(tenant)):
            return
        raise Overloaded(f"{overload.message} Try again in a moment.")

    def _has_large_bodies(self, tenant: str) -> bool:
        return self.bodies.is_used_by(tenant) or self.held.is_used_by(tenant)


class BodyBudget:
    """The bytes of all bodies that are being received, or answered. A tenant may use half of them."""

    def __init__(self, max_bytes: int, max_memory_bytes: int = 0, doing: str = "received") -> None:
        self._max_bytes = max_bytes
        self._doing = doing
        self._max_memory = max_memory_bytes * BODIES_MEMORY_SHARE
        self._tenants: Counter[str] = Counter()
        self._bytes = 0
        self.children_bytes = 0
        """The memory of child processes; set by the watchdog."""

    def reserve(self, tenant: str, size: int) -> None:
        """Raise `Overloaded` if there is no room for so many more bytes."""
        used = self._tenants[tenant]
        if self._bytes + size > self._max_bytes or (used and used + size > self._max_bytes // 2):
            raise Overloaded(f"Too many large requests are being {self._doing}. Try again in a moment.")
        expected = (self._bytes + size) * COPIES  # of those before, some is in the memory that is used
        if self._max_memory and resident_bytes() + self.children_bytes + expected > self._max_memory:
            raise Overloaded("The server has too little memory for this request. Try again in a moment.")
        self._tenants[tenant] += size
        self._bytes += size

    def is_used_by(self, tenant: str) -> bool:
        """Whether bytes of this tenant are reserved."""
        return self._tenants[tenant] > 0

    def release(self, tenant: str, size: int) -> None:
        """Give bytes back."""
        self._bytes -= size
        self._tenants[tenant] -= size
        if not self._tenants[tenant]:
            del self._tenants[tenant]


class HeldBody:
    """The bytes of a large body, until its request is answered."""

    __slots__ = ("_budget", "_size", "_tenant")

    def __init__(self, budget: BodyBudget, tenant: str) -> None:
        self._budget = budget
        self._tenant = tenant
        self._size = 0

    def grow(self, size: int) -> None:
        """The body has so many bytes more. Raises `Overloaded`."""
        self._budget.reserve(self._tenant, size)
        self._size += size

    def release(self) -> None:
        """The request is answered."""
        if self._size:
            self._budget.release(self._tenant, self._size)


class ReceivedBody:
    """A body while it is received: bounded in bytes, in the values of its JSON, and by the budget.

    If it `may_be_large`, the texts of one beyond `LARGE_BODY_BYTES` are decoded as they arrive. `held` is
    what its request holds until it is answered.
    """

    __slots__ = (
        "_budget",
        "_counter",
        "_held",
        "_large",
        "_limit",
        "_may_be_large",
        "_pieces",
        "_reserved",
        "_tenant",
        "size",
    )

    def __init__(
        self,
        limit: int,
        budget: BodyBudget,
        tenant: str,
        *,
        may_be_large: bool = False,
        held: HeldBody | None = None,
    ) -> None:
        self.size = 0
        self._held = held
        self._may_be_large = may_be_large
        self._large: LargeBody | None = None
        self._limit = limit
        self._budget = budget
        self._tenant = tenant
        self._pieces: list[bytes] = []
        self._reserved = 0
        self._counter: ValueCounter | None = None

    def expect(self, size: int) -> None:
        """The body will have so many bytes. Raises `BodyTooLarge` or `Overloaded`."""
        if size > self._limit:
            raise too_large(self._limit)
        if size > SMALL_BODY_BYTES and size > self._reserved:
            more = size - self._reserved
            self._budget.reserve(self._tenant, more)
            self._reserved = size
            if self._held is not None:
                self._held.grow(more)

    def add(self, piece: bytes) -> None:
        """The next piece. Raises `BodyTooLarge`, `Overloaded` or `TooManyValues`."""
        self.size += len(piece)
        self.expect(self.size)
        self._pieces.append(piece)
        if self.size > UNCOUNTED_BYTES:
            self._count(piece)
            if self._may_be_large and self.size > LARGE_BODY_BYTES:
                self._decode_texts()

    def _decode_texts(self) -> None:
        if self._large is None:
            self._large = LargeBody(secrets.token_hex(16))
        for piece in self._pieces:
            self._large.add(piece)
        self._pieces.clear()

    def _count(self, piece: bytes) -> None:
        if self._counter is None:
            self._counter = ValueCounter()
            piece = self.joined()
        self._counter.feed(piece)

    async def large(self) -> Body:
        """The body that is large, when everything was received."""
        large = self._large
        if large is None:
            return self.joined()
        if not large.has_texts:
            return large.skeleton()
        is_complex = self._counter is not None and self._counter.values > MAX_RESTORED_VALUES
        return await _joined_again(large) if is_complex else large

    def joined(self) -> bytes:
        """The bytes so far; not of a body that is large."""
        return b"".join(self._pieces)

    def release(self) -> None:
        """Give the reserved bytes back."""
        if self._reserved:
            self._budget.release(self._tenant, self._reserved)


async def _joined_again(large: LargeBody) -> bytes:
    pieces: list[bytes] = []
    for piece in large.encoded():
        pieces.append(piece)
        await asyncio.sleep(0)
    return b"".join(pieces)


def too_large(limit: int) -> BodyTooLarge:
    """The error of a body with more bytes."""
    return BodyTooLarge(f"The request body is too large; the limit is {limit} bytes.")
