"""Runs checks against a target, one after another, and makes a report."""

import time
from collections.abc import Callable, Iterable

from antiphon.backends.redact import redact
from antiphon.conformance.checking import Check
from antiphon.conformance.members import list_at, text_at
from antiphon.conformance.probe import Heard, Probe
from antiphon.conformance.report import Report, Result, Verdict, summarise
from antiphon.conformance.target import Target
from antiphon.conformance.verdict import Failed, Skipped
from antiphon.errors import AntiphonError

Progress = Callable[[Check], None]
Clock = Callable[[], float]


class CannotRun(AntiphonError):
    """The server cannot be checked."""


async def prepare(target: Target) -> None:
    """See that somebody answers, and choose the model if none is named."""
    try:
        answer = await target.send("GET", "models")
    except Failed as failure:
        raise CannotRun(f"{failure}.") from None
    if answer.status in (401, 403):
        given = "The key was refused" if target.has_key else "A key is wanted"
        raise CannotRun(f"{given} (status {answer.status}): set ANTIPHON_API_KEY, or --api-key.")
    if not target.model:
        listed = list_at(answer.json, "data")
        if not listed or not text_at(listed[0], "id"):
            raise CannotRun(f"{target.base_url} lists no models. Name one with --model.")
        target.model = text_at(listed[0], "id")


async def run(
    target: Target,
    checks: Iterable[Check],
    *,
    progress: Progress = lambda check: None,
    checker: str = "antiphon",
    clock: Clock = time.perf_counter,
) -> Report:
    """All these checks. `checker` says in the report whose they are."""
    heard, results = Heard(), list[Result]()
    began = clock()
    for check in checks:
        progress(check)
        results.append(await _run_one(check, Probe(target, heard), clock))
    return Report(
        checker=checker,
        base_url=redact(target.base_url),
        model=target.model,
        seconds=round(clock() - began, 3),
        requests=target.requests,
        summary=summarise(results),
        checks=results,
    )


async def _run_one(check: Check, probe: Probe, clock: Clock) -> Result:
    began, asked = clock(), probe.target.requests
    verdict: Verdict = "pass"
    why, evidence = "", list[str]()
    try:
        await check.body(probe)
    except Skipped as skipped:
        verdict, why = "skip", str(skipped)
    except Failed as failure:
        verdict, why, evidence = "fail", str(failure), [*failure.evidence, *probe.exchanges]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        # Servers answer with shapes that no check foresees; that must not end the run.
        verdict, why, evidence = "fail", f"what came cannot be read: {error!r}", probe.exchanges
    return Result(
        id=check.id,
        group=check.group,
        title=check.title,
        rule=check.rule,
        verdict=verdict,
        why=probe.safe(why),
        seconds=round(clock() - began, 3),
        requests=probe.target.requests - asked,
        evidence=[probe.safe(line) for line in evidence],
    )
