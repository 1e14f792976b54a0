"""Numbering: open items hand the class and the fields of an event to an `Emit`, which numbers it."""

from collections.abc import Callable
from typing import Literal, Protocol

from antiphon.protocol.events import Event

Status = Literal["completed", "incomplete"]


class Emit(Protocol):
    """Numbers an event and queues it."""

    def __call__(self, kind: Callable[..., Event], /, *fields: object) -> None: ...


class EventWriter:
    """Numbers events and holds them until they are taken. It refers to nobody who refers to it."""

    __slots__ = ("events", "number")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.number = 0

    def __call__(self, kind: Callable[..., Event], /, *fields: object) -> None:
        self.events.append(kind(self.number, *fields))
        self.number += 1

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events


class SilentWriter(EventWriter):
    """Makes no events: nobody reads them."""

    __slots__ = ()

    def __call__(self, kind: Callable[..., Event], /, *fields: object) -> None:
        pass
