"""Time, chance and secrets: the only place where they come from."""

import hashlib
import os
import secrets
import socket
import time

from antiphon.protocol.ids import Entropy, IdSource
from antiphon.settings import Settings
from antiphon.wiring.folders import data_folder, seal_secret


def make_ids() -> IdSource:
    """Ids from the wall clock and the system's random source."""
    return IdSource(time.time, buffered(secrets.token_bytes))


def buffered(entropy: Entropy, block: int = 4096) -> Entropy:
    """The same random bytes, asked for a block at a time: an id then costs no system call."""
    store, used = b"", 0

    def take(size: int) -> bytes:
        nonlocal store, used
        if used + size > len(store):
            store, used = entropy(max(block, size)), 0
        used += size
        return store[used - size : used]

    return take


def make_owner() -> str:
    """The name of this process among all that share a store; another one at every start."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"


def key_pepper(settings: Settings) -> bytes:
    """What keys are hashed with. Replicas that share a database need the same `seal.key`."""
    return hashlib.sha256(b"antiphon.keys\0" + seal_secret(settings, data_folder())).digest()
