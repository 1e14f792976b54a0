"""What a check is: a function that asks a server something, under a name, for a rule."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from antiphon.conformance.probe import Probe

CheckBody = Callable[[Probe], Awaitable[None]]


class Check(Struct, frozen=True):
    """One check: what it is called, and which rule of the protocol it shows."""

    id: str
    title: str
    rule: str
    body: CheckBody

    @property
    def group(self) -> str:
        """What stands before the point of the id."""
        return self.id.partition(".")[0]


def check(id: str, title: str, *, rule: str) -> Callable[[CheckBody], Check]:
    """Make a check of a function."""

    def decorate(body: CheckBody) -> Check:
        return Check(id, title, f"PROTOCOL/{rule}", body)

    return decorate
