"""The forms of a vector: little-endian 32-bit floats, base64 of them, and a list of numbers."""

import binascii
import math
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence

from antiphon.embeddings.base import Vector

_COMPONENT_BYTES = 4


def from_floats(numbers: Iterable[float]) -> Vector:
    return _little_endian(array("f", numbers)).tobytes()


def to_floats(vector: Vector) -> list[float]:
    return _little_endian(array("f", vector)).tolist()


def from_base64(text: str) -> Vector:
    """Raises `ValueError` for text that is not base64 of complete numbers."""
    try:
        vector = b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if len(vector) % _COMPONENT_BYTES:
        raise ValueError("a component is incomplete")
    return vector


def to_base64(vector: Vector) -> bytes:
    return b64encode(vector)


def is_finite(vector: Vector) -> bool:
    """Whether all components are numbers: their sum is not one if any is infinite or NaN."""
    return math.isfinite(sum(_little_endian(array("f", vector))))


def dimensions_of(vector: Vector) -> int:
    return len(vector) // _COMPONENT_BYTES


def normalized(numbers: Sequence[float]) -> list[float]:
    """The same direction, with the length 1. A vector of zeros stays as it is."""
    length = math.sqrt(math.fsum(number * number for number in numbers))
    return [number / length for number in numbers] if length else list(numbers)


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
