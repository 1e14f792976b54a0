"""Attempts at one turn: which backend gets which items, and what to try when it refuses."""

import logging
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import BackendBusy, BackendError, BackendPaused, RequestError
from antiphon.protocol.downgrade import Downgrade, Downgrades
from antiphon.protocol.items import Item
from antiphon.protocol.requests import CreateResponse
from antiphon.service.routing.circuits import is_ill
from antiphon.service.routing.router import Route
from antiphon.turn.truncation import truncate

logger = logging.getLogger(__name__)

SHRINK = 0.6
"""What is left of the items after each refusal of their length."""


class Attempt(Struct, frozen=True):
    """The first of these routes gets these items. `cause`: why the one before it did not answer."""

    routes: Sequence[Route]
    items: Sequence[Item]
    dropped: int = 0
    cause: BackendError | None = None

    @property
    def route(self) -> Route:
        """The backend that is asked."""
        return self.routes[0]

    @property
    def downgrades(self) -> tuple[Downgrade, ...]:
        """What was left out to make it fit, and who answers instead of whom."""
        found = Downgrades()
        if self.dropped:
            found.add(
                "items_truncated",
                f"{{param}}: the {self.dropped} oldest items did not fit and were left out",
                "truncation",
            )
        if self.route.instead_of:
            found.add(
                "fallback_model",
                f"{{param}}: '{self.route.model}' answers because '{self.route.instead_of}' could not",
                "model",
            )
        return tuple(found)

    def after(self, error: BackendError, request: CreateResponse) -> "Attempt | None":
        """What to try after a backend has failed before its first word, or was not asked; None: nothing."""
        if error.code == "context_length_exceeded" and request.params.truncation == "auto":
            cut = truncate(self.items, SHRINK)
            return replace(self, items=cut.items, dropped=self.dropped + cut.dropped) if cut.dropped else None
        if not is_ill(error):
            return None
        if isinstance(error, BackendPaused) and isinstance(self.cause, BackendPaused):
            error.join(self.cause)
        if len(self.routes) == 1:
            return None
        # One that was not asked has failed before, and was logged then.
        quiet = isinstance(error, BackendPaused | BackendBusy)
        level = logging.DEBUG if quiet else logging.WARNING
        logger.log(level, "backend %s failed, trying the next: %s", self.route.backend.name, error.message)
        return replace(self, routes=self.routes[1:], cause=error)

    def unfit(self, refusal: RequestError) -> "Attempt":
        """What to try when this backend cannot serve such a request at all. One that was asked first says so;
        one that stands in is passed over, and when there is no other, what went wrong before is told."""
        if self.cause is None:
            raise refusal
        if len(self.routes) == 1:
            raise self.cause
        return replace(self, routes=self.routes[1:])
