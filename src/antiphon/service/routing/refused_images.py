"""Models that refused images, as their servers reported it. It only informs: requests are still sent."""

from antiphon.backends.request_faults import refuses_images
from antiphon.errors import BackendError
from antiphon.protocol.ids import Clock
from antiphon.service.routing.circuits import Key

MAX_REMEMBERED_MODELS = 1000
"""Clients choose the names of models."""
REMEMBERED_SECONDS = 3600.0
"""A server may load another model under the same name."""


class RefusedImages:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused_at: dict[Key, float] = {}

    def learn(self, key: Key, error: BackendError) -> None:
        """Remember the model if this error says that it takes no images."""
        if error.status >= 500 or not refuses_images(error.message):
            return
        self._refused_at.pop(key, None)
        if len(self._refused_at) >= MAX_REMEMBERED_MODELS:
            del self._refused_at[next(iter(self._refused_at))]
        self._refused_at[key] = self._clock()

    def __contains__(self, key: Key) -> bool:
        return self._clock() - self._refused_at.get(key, -REMEMBERED_SECONDS) < REMEMBERED_SECONDS
