"""Runs checks against a target, one after another, and makes a report."""

import time
from collections.abc import Callable, Iterable

import msgspec

from antiphon.conformance.checking import Check
from antiphon.conformance.members import list_at, object_at, text_at
from antiphon.conformance.probe import ENOUGH, NO_MODEL, Heard, Probe
from antiphon.conformance.report import Report, Result, Verdict, summarise
from antiphon.conformance.target import Answer, Target
from antiphon.conformance.verdict import Failed, Skipped
from antiphon.errors import AntiphonError
from antiphon.http.redact import redact

Progress = Callable[[Check], None]
Clock = Callable[[], float]


ENOUGH_SILENCE = 3
"""After so many requests in a row without an answer, the rest is not asked: each would take as long."""


class CannotRun(AntiphonError):
    """The server cannot be checked."""


async def prepare(target: Target) -> None:
    """See that somebody answers, choose the model if none is named, and see that it can be asked."""
    try:
        answer = await target.send("GET", "models")
    except Failed as failure:
        raise CannotRun(f"{failure}.") from None
    _expect_welcome(target, answer)
    if not target.model:
        listed = list_at(answer.json, "data")
        if not listed or not text_at(listed[0], "id"):
            raise CannotRun(f"{target.base_url} lists no models{_what_came(answer)}. Name one with --model.")
        target.model = text_at(listed[0], "id")
    await _try_model(target)


async def _try_model(target: Target) -> None:
    """Ask once. A model that is not there, or a server that has no time, would make every check skip or fail
    for a reason that is not its own."""
    body = msgspec.json.encode({"model": target.model, "input": "Say hello.", "max_output_tokens": ENOUGH})
    try:
        answer = await target.send("POST", "responses", body)
    except Failed as failure:
        raise CannotRun(f"The model does not answer: {failure}. See --timeout.") from None
    _expect_welcome(target, answer)
    error = object_at(answer.json, "error")
    said = redact(text_at(error, "message"), target.secrets)
    if answer.status in (408, 429):
        raise CannotRun(f"The server has no time for us (status {answer.status}): {said}")
    named = answer.status == 404 and target.model in text_at(error, "message")
    if answer.status != 200 and (error.get("code") == NO_MODEL or named):
        raise CannotRun(f"{target.base_url} has no model '{target.model}' (status {answer.status}): {said}")


def _expect_welcome(target: Target, answer: Answer) -> None:
    if answer.status in (401, 403):
        given = "The key was refused" if target.has_key else "A key is wanted"
        raise CannotRun(f"{given} (status {answer.status}): set ANTIPHON_API_KEY, or --api-key.")


def _what_came(answer: Answer) -> str:
    """What came instead of a list: a page, or the way to another place."""
    if answer.status == 200 and answer.media_type == "application/json":
        return ""
    elsewhere = answer.headers.get("location")
    moved = f", Location: {redact(elsewhere)}" if elsewhere else ""
    return f" (status {answer.status}, {answer.media_type or 'no content type'}{moved})"


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
        if target.silence >= ENOUGH_SILENCE:
            raise CannotRun(f"The server answers no more: {results[-1].why}. The last check was {check.id}.")
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
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
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
