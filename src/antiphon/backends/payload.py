"""`Payload`: a turn as the body of a request, in whichever dialect."""

from collections.abc import Mapping

from msgspec import Struct

from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrade
from antiphon.turn.constraints import Constraint

_NONE: Mapping[str, str] = {}


class Payload(Struct, frozen=True):
    """A body, and the constraints and downgrades of the turn that it cannot express."""

    body: JsonObject
    downgrades: tuple[Downgrade, ...] = ()
    unenforced: frozenset[Constraint] = frozenset()
    """Constraints that the request only asks for, so that the answer must be checked."""
    headers: Mapping[str, str] = _NONE
    """Headers that this body needs."""
    names: Mapping[str, str] = _NONE
    """The name that the upstream takes, by tool; for APIs that restrict names."""
