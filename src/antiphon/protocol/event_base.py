"""`Event`: what every event has."""

from msgspec import Struct


class Event(Struct, tag_field="type", frozen=True, gc=False):
    """What every event has: its type and its number."""

    sequence_number: int
