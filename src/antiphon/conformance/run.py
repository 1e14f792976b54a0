"""Runs checks against a target, sequentially, and makes a report."""

import time
from collections.abc import Callable, Iterable

import msgspec

from antiphon.conformance.probe import MAX_OUTPUT_TOKENS, NO_MODEL, Check, Probe, Streams
from antiphon.conformance.reading import list_at, object_at, text_at
from antiphon.conformance.results import Failed, Report, Result, Skipped, Verdict, summarise
from antiphon.conformance.target import Answer, Target
from antiphon.errors import AntiphonError
from antiphon.http.redact import redact

Progress = Callable[[Check], None]
Clock = Callable[[], float]


MAX_UNANSWERED_REQUESTS = 3
"""In a row; then the run ends, because every further request would take as long."""


class CannotRun(AntiphonError):
    """The server cannot be checked."""


async def prepare(target: Target) -> None:
    """Check that the server answers, choose its first model if none is named, and send one request to it."""
    try:
        answer = await target.send("GET", "models")
    except Failed as failure:
        raise CannotRun(f"{failure}.") from None
    _expect_access(target, answer)
    if not target.model:
        listed = list_at(answer.json, "data")
        if not listed or not text_at(listed[0], "id"):
            raise CannotRun(f"{target.base_url} lists no models{_describe(answer)}. Name one with --model.")
        target.model = text_at(listed[0], "id")
    await _try_model(target)


async def _try_model(target: Target) -> None:
    """Send one request. With an unknown model or an overloaded server, every check would be skipped or would
    fail for the wrong reason."""
    body = msgspec.json.encode(
        {"model": target.model, "input": "Say hello.", "max_output_tokens": MAX_OUTPUT_TOKENS}
    )
    try:
        answer = await target.send("POST", "responses", body)
    except Failed as failure:
        raise CannotRun(f"The model does not answer: {failure}. See --timeout.") from None
    _expect_access(target, answer)
    error = object_at(answer.json, "error")
    message = redact(text_at(error, "message"), target.secrets)
    if answer.status in (408, 429):
        raise CannotRun(f"The server is overloaded (status {answer.status}): {message}")
    named = answer.status == 404 and target.model in text_at(error, "message")
    if answer.status != 200 and (error.get("code") == NO_MODEL or named):
        raise CannotRun(
            f"{target.base_url} has no model '{target.model}' (status {answer.status}): {message}"
        )


def _expect_access(target: Target, answer: Answer) -> None:
    if answer.status in (401, 403):
        given = "The key was refused" if target.has_key else "The server needs a key"
        raise CannotRun(f"{given} (status {answer.status}): set ANTIPHON_API_KEY, or --api-key.")


def _describe(answer: Answer) -> str:
    """The status and type of an answer that is not JSON, and where it redirects to."""
    if answer.status == 200 and answer.media_type == "application/json":
        return ""
    location = answer.headers.get("location")
    moved = f", Location: {redact(location)}" if location else ""
    return f" (status {answer.status}, {answer.media_type or 'no content type'}{moved})"


async def run(
    target: Target,
    checks: Iterable[Check],
    *,
    progress: Progress = lambda check: None,
    done: Callable[[Result], None] = lambda result: None,
    checker: str = "antiphon",
    clock: Clock = time.perf_counter,
) -> Report:
    """Run these checks: `progress` is called before each, and `done` after it. `checker` names the program in
    the report."""
    streams: Streams = {}
    results = list[Result]()
    began = clock()
    for check in checks:
        progress(check)
        results.append(await _run_one(check, Probe(target, streams), clock))
        done(results[-1])
        if target.unanswered >= MAX_UNANSWERED_REQUESTS:
            raise CannotRun(
                f"The server stopped answering: {results[-1].why}. The last check was {check.id}."
            )
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
        # A body of an unexpected shape fails the check, not the run.
        verdict, why, evidence = "fail", f"the answer cannot be read: {error!r}", probe.exchanges
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
