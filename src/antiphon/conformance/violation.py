"""What a stream does wrong."""

from typing import Literal

from msgspec import Struct

Mode = Literal["strict", "lenient"]
"""`strict` is for our own streams. `lenient` is for those of other servers: events and item types that are
not in the table are passed over, and so is what real servers leave out and clients do not miss."""

Aspect = Literal["envelope", "order", "added", "numbering", "index", "id", "fold", "incomplete"]
"""Which promise is broken: what a stream begins and ends with; the order inside of it; what an item looks
like when it is added; `sequence_number`; the other indices; ids; that deltas, `done` and the end say the
same; or that an incomplete item is the last of an incomplete response."""


class Violation(Struct, frozen=True):
    """One rule that one event breaks; `at` is its position in the stream."""

    aspect: Aspect
    at: int
    says: str

    def __str__(self) -> str:
        return f"event {self.at}: {self.says}"
