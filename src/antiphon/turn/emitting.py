"""Numbering: open items pass the class and the fields of an event to an `Emit`, which numbers it."""

from collections.abc import Callable
from typing import Literal, Protocol

from antiphon.protocol.events import Event

Status = Literal["completed", "incomplete"]


class Emit(Protocol):
    """Numbers an event and queues it."""

    def __call__(self, kind: Callable[..., Event], /, *fields: object) -> None: ...


class EventWriter:
    """Numbers events and queues them. It references no other object, so it is part of no reference cycle."""

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
    """Discards events, for responses whose events nobody reads."""

    __slots__ = ()

    def __call__(self, kind: Callable[..., Event], /, *fields: object) -> None:
        pass
