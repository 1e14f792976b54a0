"""How a check ends: it returns, or it raises `Failed` or `Skipped`."""

from collections.abc import Iterable


class Failed(Exception):
    """The server breaks the rule. `evidence` is what shows it."""

    def __init__(self, why: str, evidence: Iterable[str] = ()) -> None:
        self.evidence = list(evidence)
        super().__init__(why)


class Skipped(Exception):
    """The rule was not put to the test: the server does not offer it, or the model did not provoke it."""


def expect(holds: object, otherwise: str, evidence: Iterable[str] = ()) -> None:
    """Fail unless this holds."""
    if not holds:
        raise Failed(otherwise, evidence)


def provoked(holds: object, otherwise: str) -> None:
    """Skip unless the model did what was asked of it."""
    if not holds:
        raise Skipped(f"not provoked: {otherwise}")
