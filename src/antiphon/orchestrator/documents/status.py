"""The life cycle of a design document.

    Proposed ──► Accepted ──► Superseded
       ▲ │
       │ └─────► Rejected ──┐
       └────────────────────┘   taken up again

A document starts as proposed. An accepted document is a decision: it is never rejected later, only superseded
by a newer one, and that is final.
"""

from enum import StrEnum

from antiphon.errors import InvalidRequest


class Status(StrEnum):
    """The status of a document."""

    PROPOSED = "Proposed"
    ACCEPTED = "Accepted"
    REJECTED = "Rejected"
    SUPERSEDED = "Superseded"


FIRST = Status.PROPOSED
NEXT: dict[Status, tuple[Status, ...]] = {
    Status.PROPOSED: (Status.ACCEPTED, Status.REJECTED),
    Status.ACCEPTED: (Status.SUPERSEDED,),
    Status.REJECTED: (Status.PROPOSED,),
    Status.SUPERSEDED: (),
}
_BY_NAME = {status.lower(): status for status in Status}


def read_status(text: str) -> Status:
    """Parse a status, in any case."""
    found = _BY_NAME.get(text.strip().lower())
    if found is None:
        raise InvalidRequest(f"'{text}' is not a status. Use one of: {', '.join(Status)}.", param="status")
    return found


def check_first(status: Status) -> None:
    """Raise `InvalidRequest` unless a new document is proposed."""
    if status is not FIRST:
        raise InvalidRequest(
            f"A new document cannot be {status}: it starts as {FIRST}, and is decided in a second step.",
            param="status",
            code="invalid_status_change",
        )


def check_change(old: Status, new: Status) -> None:
    """Raise `InvalidRequest` for a transition that the life cycle does not have."""
    if new is old or new in NEXT[old]:
        return
    allowed = " or ".join(NEXT[old])
    advice = f"It can become {allowed}." if allowed else "That is final: write a new document."
    raise InvalidRequest(
        f"A document that is {old} cannot become {new}. {advice}",
        param="status",
        code="invalid_status_change",
    )
