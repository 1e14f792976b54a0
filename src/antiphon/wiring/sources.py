"""The only sources of time, random numbers and secrets."""

import hashlib
import os
import secrets
import socket
import time

from antiphon.protocol.ids import IdSource
from antiphon.settings import Settings
from antiphon.wiring.folders import data_folder, seal_secret


def make_ids() -> IdSource:
    """Ids from the wall clock and the system's random source."""
    return IdSource(time.time, secrets.token_bytes, block=256)


def make_owner() -> str:
    """A name of this process that is unique among all that share a store, and new at every start."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"


def key_pepper(settings: Settings) -> bytes:
    """The secret for hashing API keys. Replicas that share a database need the same `seal.key`."""
    return hashlib.sha256(b"antiphon.keys\0" + seal_secret(settings, data_folder())).digest()


def seal_fingerprint(settings: Settings) -> str:
    """Identifies the sealing key without revealing it. The database holds that of the first server, so that
    one with another key notices it."""
    return hashlib.sha256(b"antiphon.fingerprint\0" + seal_secret(settings, data_folder())).hexdigest()
