"""The section ``[health]``."""

from typing import Annotated

from msgspec import Meta, Struct


class HealthSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """When an upstream is paused after failures."""

    failures: Annotated[int, Meta(ge=0)] = 5
    """Failures of one model in a row after which its upstream is paused; 0: never."""
    pause: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds until the next attempt."""
