"""Kinds of jobs are data: the work function, its concurrency, and its retries."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from antiphon.store.base import Job

Work = Callable[[Job], Awaitable[None]]
"""Does one job. Cancelling it stops the model, or the tool.

When it returns, the job is done, or another owner has it. When it raises, the job is due again later. What
was done so far is in the row that the job belongs to: the next attempt continues from there.
"""

RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""The pauses after errors; the last one repeats."""


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of job.

    `concurrency` is the number of jobs that one process works on at a time, `per_tenant` the number of jobs
    of one tenant that all processes work on at a time. Kinds with a lower `priority` are claimed first. A job
    that fails `max_attempts` times is given up; without that, it is retried until it succeeds.
    """

    name: str
    work: Work
    concurrency: int = 1000
    per_tenant: int | None = None
    priority: int = 0
    retry_seconds: tuple[float, ...] = RETRY_SECONDS
    max_attempts: int | None = None

    def pause_after(self, failures: int) -> float:
        """The seconds after which a job is due again that has failed so often before."""
        return self.retry_seconds[min(failures, len(self.retry_seconds) - 1)]
