"""`TenantBudget`: bytes that all tenants share, of which one tenant may use half."""

from collections import Counter


class TenantBudget:
    """The bytes of one kind that a process holds."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._tenants: Counter[str] = Counter()

    def charge(self, tenant: str, size: int) -> bool:
        """Returns whether there is room for so many bytes, which are then in use. A tenant that uses none may
        exceed its half."""
        used = self._tenants[tenant]
        if self._tenants.total() + size > self._max_bytes or (used and used + size > self._max_bytes // 2):
            return False
        self._tenants[tenant] += size
        return True

    def release(self, tenant: str, size: int) -> None:
        """Give bytes back."""
        self._tenants[tenant] -= size
        if not self._tenants[tenant]:
            del self._tenants[tenant]
