"""Functions that a child process runs."""

import os
import time


def echo(payload: bytes) -> bytes:
    """The payload."""
    return payload


def process_id(_payload: bytes) -> bytes:
    """Which process this is."""
    return str(os.getpid()).encode()


def session(_payload: bytes) -> bytes:
    """The session and the process group of this process."""
    return f"{os.getsid(0)} {os.getpgid(0)}".encode()


def environment(_payload: bytes) -> bytes:
    """The names of the environment's variables."""
    return "\n".join(os.environ).encode()


def spin(_payload: bytes) -> bytes:
    """Use CPU time without an end."""
    while True:
        pass


def sleep(payload: bytes) -> bytes:
    """Wait as many seconds as the payload says."""
    time.sleep(float(payload))
    return payload


def allocate(_payload: bytes) -> bytes:
    """Take all memory there is."""
    blocks: list[bytes] = []
    while True:
        blocks.append(bytes(2**22))


_held: list[bytes] = []


def hold(payload: bytes) -> bytes:
    """Keep as many bytes as the payload says."""
    _held.append(b"x" * int(payload))
    return str(os.getpid()).encode()


def abort(_payload: bytes) -> bytes:
    """End as a library does that gets no memory."""
    os.abort()


def fail(_payload: bytes) -> bytes:
    """A fault of ours."""
    raise LookupError("a secret detail")
