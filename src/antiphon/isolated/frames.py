"""What a pool and its children send each other: frames of msgpack after their length. The payload of a job
follows its frame as it is."""

import struct
from typing import Literal

import msgspec
from msgspec import Struct

HEADER = struct.Struct(">I")

Excess = Literal["cpu", "memory", "time", "crash"]
"""Why a job ended without a result. `crash`: for a reason that is not known."""


class Job(Struct, frozen=True, array_like=True):
    """Call `function`, a name such as ``package.module:name``, with a payload of so many bytes."""

    function: str
    payload_bytes: int


class Success(Struct, frozen=True, tag=True, array_like=True):
    """What the function returned. It is decoded without a copy."""

    result: memoryview


class Failure(Struct, frozen=True, tag=True, array_like=True):
    """The function ran out of memory, or raised: a fault of ours."""

    reason: Literal["memory", "error"]
    message: str = ""


_EMPTY_BYTES = b"\xc4\x00"
_BYTES_HEADER = struct.Struct(">BI")
_BYTES_TAG = 0xC6


def encode_in_pieces(job: Struct, data: bytes) -> tuple[bytes, bytes, bytes]:
    """A job in msgpack whose first member is empty, with `data` as this member, which is not copied."""
    encoded = msgspec.msgpack.encode(job)
    array, first, rest = encoded[:1], encoded[1:3], encoded[3:]
    assert first == _EMPTY_BYTES
    return array + _BYTES_HEADER.pack(_BYTES_TAG, len(data)), data, rest
