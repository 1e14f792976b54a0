"""What a pool and its children send each other: frames of msgpack after their length."""

import struct
from typing import Literal

from msgspec import Struct

HEADER = struct.Struct(">I")

Excess = Literal["cpu", "memory", "time", "crash"]
"""Why a job ended without a result. `crash`: for a reason that is not known."""


class Job(Struct, frozen=True, array_like=True):
    """Call `function`, a name such as ``package.module:name``, with the payload."""

    function: str
    payload: bytes


class Success(Struct, frozen=True, tag=True, array_like=True):
    """What the function returned. It is decoded without a copy."""

    result: memoryview


class Failure(Struct, frozen=True, tag=True, array_like=True):
    """The function ran out of memory, or raised: a fault of ours."""

    reason: Literal["memory", "error"]
    message: str = ""
