"""How a check ends, and the report of a run. The JSON of a report is stable: `schema` names its version."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Verdict = Literal["pass", "fail", "skip"]
SCHEMA = "antiphon.conformance/1"


class Result(Struct, frozen=True, kw_only=True):
    id: str
    group: str
    title: str
    rule: str
    verdict: Verdict
    why: str = ""
    seconds: float
    requests: int
    evidence: list[str] = []


class Summary(Struct, frozen=True):
    passed: int
    failed: int
    skipped: int


class Report(Struct, frozen=True, kw_only=True):
    schema: str = SCHEMA
    checker: str
    base_url: str
    model: str
    seconds: float
    requests: int
    summary: Summary
    checks: list[Result]


def summarise(results: list[Result]) -> Summary:
    verdicts = [result.verdict for result in results]
    return Summary(verdicts.count("pass"), verdicts.count("fail"), verdicts.count("skip"))


class Failed(Exception):
    """The server breaks the rule; `evidence` shows where."""

    def __init__(self, why: str, evidence: Iterable[str] = ()) -> None:
        self.evidence = list(evidence)
        super().__init__(why)


class Skipped(Exception):
    """The rule was not tested: the server lacks the feature, or the model did not do what the test needs."""


def expect(condition: object, message: str, evidence: Iterable[str] = ()) -> None:
    """Raise `Failed` unless the condition holds."""
    if not condition:
        raise Failed(message, evidence)


def provoked(condition: object, message: str) -> None:
    """Raise `Skipped` unless the model did what the check needs."""
    if not condition:
        raise Skipped(f"not provoked: {message}")
