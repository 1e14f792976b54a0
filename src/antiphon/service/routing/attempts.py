"""Attempts at one turn: the backend and the items to try, and the next attempt after a failure."""

import logging
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import BackendBusy, BackendError, BackendPaused, RequestError
from antiphon.protocol.downgrade import Downgrade, Downgrades
from antiphon.protocol.items import Item
from antiphon.protocol.requests import CreateResponse
from antiphon.service.routing.circuits import is_backend_fault
from antiphon.service.routing.router import Route
from antiphon.turn.truncation import truncate

logger = logging.getLogger(__name__)

TRUNCATION_FACTOR = 0.6
"""The share of the items that remains after each rejection of their length."""


class Attempt(Struct, frozen=True):
    """Sends these items to the first of these routes. `cause`: the error of the route before it."""

    routes: Sequence[Route]
    items: Sequence[Item]
    dropped: int = 0
    cause: BackendError | None = None

    @property
    def route(self) -> Route:
        return self.routes[0]

    @property
    def downgrades(self) -> tuple[Downgrade, ...]:
        """The downgrades for omitted items and for a fallback."""
        if not self.dropped and not self.route.instead_of:
            return ()
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
        """The next attempt after an error before the first output; None if no route is left."""
        if error.code == "context_length_exceeded" and request.params.truncation == "auto":
            cut = truncate(self.items, TRUNCATION_FACTOR)
            return replace(self, items=cut.items, dropped=self.dropped + cut.dropped) if cut.dropped else None
        if not is_backend_fault(error):
            return None
        if isinstance(error, BackendPaused) and isinstance(self.cause, BackendPaused):
            error.join(self.cause)
        if len(self.routes) == 1:
            return None
        # The failures that paused a backend were logged before.
        quiet = isinstance(error, BackendPaused | BackendBusy)
        level = logging.DEBUG if quiet else logging.WARNING
        logger.log(level, "backend %s failed, trying the next: %s", self.route.backend.name, error.message)
        return replace(self, routes=self.routes[1:], cause=error)

    def unfit(self, refusal: RequestError) -> "Attempt":
        """The next attempt when this backend cannot serve the request at all. The refusal of the first route
        is raised; a fallback is skipped, and after the last one the original error is raised."""
        if self.cause is None:
            raise refusal
        if len(self.routes) == 1:
            raise self.cause
        return replace(self, routes=self.routes[1:])
