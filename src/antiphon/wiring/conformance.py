"""Runs the conformance checker for the page: one object per check as it ends, then the summary."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from antiphon.conformance.checks import CHECKS
from antiphon.conformance.results import Report, Result
from antiphon.conformance.run import prepare, run
from antiphon.conformance.target import Target

CHECK_TIMEOUT_SECONDS = 60.0
_OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}


async def run_checks(base_url: str, model: str, api_key: str | None) -> AsyncGenerator[dict[str, Any], None]:
    """Check this server. Raises `CannotRun`."""
    target = Target(base_url, model=model, api_key=api_key, timeout=CHECK_TIMEOUT_SECONDS)
    results: asyncio.Queue[Result | None] = asyncio.Queue()
    try:
        await prepare(target)
        work = asyncio.ensure_future(_run(target, results))
        try:
            while (result := await results.get()) is not None:
                yield _to_wire(result)
            report = await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        summary = report.summary
        yield {
            "object": "conformance.summary",
            "model": report.model,
            "passed": summary.passed,
            "failed": summary.failed,
            "skipped": summary.skipped,
            "seconds": report.seconds,
            "requests": report.requests,
        }
    finally:
        target.close()


async def _run(target: Target, results: "asyncio.Queue[Result | None]") -> Report:
    try:
        return await run(target, CHECKS, done=results.put_nowait)
    finally:
        results.put_nowait(None)


def _to_wire(result: Result) -> dict[str, Any]:
    return {
        "object": "conformance.check",
        "name": result.id,
        "group": result.group,
        "title": result.title,
        "outcome": _OUTCOMES[result.verdict],
        "detail": result.why,
        "seconds": result.seconds,
    }
