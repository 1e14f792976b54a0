"""Whether the server takes more work: not while it is overloaded, nor more bodies than it has room for."""

from collections import Counter

from antiphon.errors import Overloaded

SMALL_BODY_BYTES = 64 * 1024
"""Bodies up to this size are not counted."""
MAX_BODIES_BYTES = 128 * 1024 * 1024


class Admission:
    """Decides about new requests. Requests without a body, such as a cancellation, are always served."""

    def __init__(self, max_bodies_bytes: int = MAX_BODIES_BYTES) -> None:
        self.overload: str | None = None
        """Why no more work is taken, as a sentence; set by the watchdog."""
        self.bodies = BodyBudget(max_bodies_bytes)

    def check(self) -> None:
        """Raise `Overloaded` if the server is."""
        if self.overload is not None:
            raise Overloaded(f"{self.overload} Try again in a moment.")


class BodyBudget:
    """The bytes of all bodies that are being received. A tenant may use half of them."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._tenants: Counter[str] = Counter()
        self._bytes = 0

    def reserve(self, tenant: str, size: int) -> None:
        """Raise `Overloaded` if there is no room for so many more bytes."""
        used = self._tenants[tenant]
        if self._bytes + size > self._max_bytes or (used and used + size > self._max_bytes // 2):
            raise Overloaded("Too many large requests are being received. Try again in a moment.")
        self._tenants[tenant] += size
        self._bytes += size

    def release(self, tenant: str, size: int) -> None:
        """Give bytes back."""
        self._bytes -= size
        self._tenants[tenant] -= size
        if not self._tenants[tenant]:
            del self._tenants[tenant]
