"""What a run found, as a value. Its JSON form is stable: `schema` names the version."""

from typing import Literal

from msgspec import Struct

Verdict = Literal["pass", "fail", "skip"]
SCHEMA = "antiphon.conformance/1"


class Result(Struct, frozen=True, kw_only=True):
    """What came of one check."""

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
    """How many of each."""

    passed: int
    failed: int
    skipped: int


class Report(Struct, frozen=True, kw_only=True):
    """A whole run."""

    schema: str = SCHEMA
    checker: str
    base_url: str
    model: str
    seconds: float
    requests: int
    summary: Summary
    checks: list[Result]


def summarise(results: list[Result]) -> Summary:
    """Count the verdicts."""
    verdicts = [result.verdict for result in results]
    return Summary(verdicts.count("pass"), verdicts.count("fail"), verdicts.count("skip"))
