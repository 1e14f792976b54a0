"""User ids of sandboxes, for a server that is root: one for each sandbox.

The kernel counts processes for each user id, so sandboxes that shared one would take processes from each
other. An id is in use while an abstract Unix socket with its name is bound: other server processes see that
too, and the kernel closes the socket of one that dies. Server processes in different network namespaces do
not see each other's sockets; they choose at random from a range that is large.
"""

import secrets
import socket
from pathlib import Path

LARGE_RANGE = range(1_880_000_000, 2_140_000_000)
"""Distributions and systemd assign no ids of this range."""
SMALL_RANGE = range(60_600, 61_100)
"""The same, for a server in a user namespace that has 65,536 ids."""
MAX_ATTEMPTS = 1000


class HeldUserId:
    """A user id that no other sandbox gets until it is released."""

    def __init__(self, uid: int, holder: socket.socket) -> None:
        self.uid = uid
        self._holder = holder

    def release(self) -> None:
        """Let other sandboxes have it."""
        self._holder.close()


def hold_user_id(ids: range | None = None) -> HeldUserId:
    """A user id that is not in use. Raises `OSError` if there is none."""
    ids = ids or available_range()
    start = secrets.randbelow(len(ids))
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for attempt in range(min(len(ids), MAX_ATTEMPTS)):
        uid = ids[(start + attempt) % len(ids)]
        try:
            holder.bind(f"\0antiphon-sandbox-{uid}")
        except OSError:
            continue
        return HeldUserId(uid, holder)
    holder.close()
    raise OSError("all user ids of sandboxes are in use")


def available_range(uid_map: Path = Path("/proc/self/uid_map")) -> range:
    """The large range, if all its ids exist in the user namespace of the server."""
    for line in uid_map.read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= LARGE_RANGE.start and LARGE_RANGE.stop <= first + count:
            return LARGE_RANGE
    return SMALL_RANGE
