"""The bytes of files that are being written, by tenant: no row counts them yet, but they take room.

Each process counts what it writes itself.
"""

from weakref import WeakValueDictionary

from antiphon.store.files import FileQuota, too_many_bytes

SMALL_BYTES = 64 * 1024
"""A file of at most this size may be written without room: the tenant may have its content already, which
counts once."""


class TenantBytes:
    """What one tenant has stored, as it was last read, and what is being written for it."""

    def __init__(self) -> None:
        self.stored = 0
        self.pending = 0


class WriteAllowance:
    """The room of an object while it is written. `charged_bytes` of it are among the stored ones already."""

    def __init__(self, tenant: TenantBytes, quota: FileQuota, charged_bytes: int) -> None:
        self._tenant = tenant
        self._quota = quota
        self._charged = charged_bytes
        self._pending = 0

    def cover(self, size: int) -> None:
        """Have room for so many bytes in all. Raises `InvalidRequest` if the quota has none."""
        more = size - self._charged - self._pending
        if more <= 0:
            return
        is_beyond = self._tenant.stored + self._tenant.pending + more > self._quota.bytes
        if is_beyond and size > SMALL_BYTES:
            raise too_many_bytes(self._quota)
        self._pending += more
        self._tenant.pending += more

    def settle(self) -> None:
        """All is written, and counts as stored until that is read again: the row decides from now on."""
        self._tenant.stored += self._pending
        self.end()

    def end(self) -> None:
        """Nothing is written any more."""
        self._tenant.pending -= self._pending
        self._pending = 0


class PendingBytes:
    """The tenants for which objects are being written."""

    def __init__(self) -> None:
        self._tenants: WeakValueDictionary[str, TenantBytes] = WeakValueDictionary()

    def of(self, tenant: str) -> TenantBytes:
        """What a tenant has, for as long as the caller holds it."""
        return self._tenants.setdefault(tenant, TenantBytes())
