"""Attempts at one turn: which backend gets which items, and what to try when it refuses."""

import logging
from collections.abc import Sequence

from msgspec import Struct

from antiphon.errors import BackendError
from antiphon.protocol.items import Item
from antiphon.protocol.requests import CreateResponse
from antiphon.service.router import Route
from antiphon.turn.truncation import truncate

logger = logging.getLogger(__name__)

SHRINK = 0.6
"""What is left of the items after each refusal of their length."""


class Attempt(Struct, frozen=True):
    """The first of these routes gets these items."""

    routes: Sequence[Route]
    items: Sequence[Item]
    dropped: int = 0

    @property
    def route(self) -> Route:
        """The backend that is asked."""
        return self.routes[0]

    @property
    def downgrades(self) -> tuple[str, ...]:
        """What was left out to make it fit."""
        if not self.dropped:
            return ()
        return (f"truncation: the {self.dropped} oldest items did not fit and were left out",)

    def after(self, error: BackendError, request: CreateResponse) -> "Attempt | None":
        """What to try after a backend has failed before its first word; None: nothing."""
        if error.code == "context_length_exceeded" and request.params.truncation == "auto":
            cut = truncate(self.items, SHRINK)
            return Attempt(self.routes, cut.items, self.dropped + cut.dropped) if cut.dropped else None
        if error.retryable and len(self.routes) > 1:
            name = self.route.backend.name
            logger.warning("backend %s failed, trying the next: %s", name, error.message)
            return Attempt(self.routes[1:], self.items, self.dropped)
        return None
