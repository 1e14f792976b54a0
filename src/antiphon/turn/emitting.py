"""What open items say goes through here."""

from collections.abc import Callable
from typing import Literal, Protocol

from antiphon.protocol.events import Event

Status = Literal["completed", "incomplete"]


class Emit(Protocol):
    """Numbers an event and sends it on its way."""

    def __call__(self, kind: Callable[..., Event], /, *fields: object) -> None: ...
