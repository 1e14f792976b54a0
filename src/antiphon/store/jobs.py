"""Scripts of jobs: claims, leases and due times.

The script that saves a response or a run also writes its job. The token of a job rises with every claim;
owner and token together identify one claim.
"""

from collections.abc import Sequence

from antiphon.store.base import Fenced, Job, JobLimit, NewJob, Settled
from antiphon.store.database import Row, Script, Statement


def add(job: NewJob, owner: str | None = None) -> Script[None]:
    """Add a job unless it exists. With an owner it is already claimed, with the token 1."""
    row = (*(job.kind, job.tenant, job.id), job.delay, job.period, owner, 0 if owner is None else 1)
    yield Statement("add_job", row)


def remove(kind: str, keys: Sequence[tuple[str, str]]) -> Script[None]:
    """Remove the jobs of rows that end or are deleted, given by tenant and id.

    Call it before the rows are locked: claims also lock the job first.
    """
    if keys:
        yield Statement("delete_job", [(kind, tenant, job_id) for tenant, job_id in keys], many=True)


def fence(job: Job) -> Script[None]:
    """Raise `Fenced` unless this claim is the newest; hold the job until the end of the transaction."""
    if not (yield Statement("fence_job", _claim_of(job))):
        raise Fenced(f"Job '{job.id}' was claimed by another owner, or it has ended.")


def claim(owner: str, limits: Sequence[JobLimit]) -> Script[list[Job]]:
    """Claim due jobs of these kinds, in this order."""
    claimed: list[Job] = []
    for limit in limits:
        if limit.per_tenant is None:
            rows = yield Statement("claim_jobs", (owner, limit.kind, limit.free))
            claimed += [_job(row, owner) for row in rows]
            continue
        for _ in range(limit.free):
            rows = yield Statement("claim_tenant_job", (owner, limit.kind, limit.per_tenant))
            if not rows:
                break
            claimed += [_job(row, owner) for row in rows]
    return claimed


def claim_one(owner: str, kind: str, tenant: str, job_id: str, lease: float) -> Script[Job | None]:
    """Claim one job, due or not, unless another owner holds it."""
    rows = yield Statement("claim_job", (owner, kind, tenant, job_id, lease))
    return _job(rows[0], owner) if rows else None


def look(kinds: Sequence[str]) -> Script[tuple[bool, float | None]]:
    """Whether a job of these kinds is due, and the seconds until the next one will be, if there is one."""
    due, waits = False, list[float]()
    for kind in kinds:
        [[overdue, wait]] = yield Statement("look_for_jobs", (kind,))
        due = due or overdue is not None
        if wait is not None:
            waits.append(wait)
    return due, min(waits, default=None)


def lapsed(owner: str, lease: float) -> Script[bool]:
    """Whether an owner other than this one holds jobs without a sign of life for `lease` seconds."""
    return bool((yield Statement("lapsed_jobs", (owner, lease))))


def free_lapsed(owner: str, lease: float) -> Script[int]:
    """Take the jobs of lapsed owners: their attempts broke off, and they are due now. Returns how many."""
    return len((yield Statement("free_lapsed_jobs", (owner, lease))))


def held(owner: str) -> Script[list[Job]]:
    """The jobs of an owner."""
    return [_job(row, owner) for row in (yield Statement("held_jobs", (owner,)))]


def settle(settled: Sequence[Settled]) -> Script[None]:
    """Record the outcomes of claimed jobs. Jobs that another owner has claimed since are unchanged."""
    finished = [_claim_of(each.job) for each in settled if each.outcome == "finished"]
    failed = [(*_claim_of(each.job), each.delay) for each in settled if each.outcome == "failed"]
    released = [_claim_of(each.job) for each in settled if each.outcome == "released"]
    if finished:
        yield Statement("finish_job", finished, many=True)
        yield Statement("reschedule_job", finished, many=True)
    if failed:
        yield Statement("retry_job", failed, many=True)
    if released:
        yield Statement("release_job", released, many=True)


def progress(kind: str, tenant: str, job_id: str) -> Script[None]:
    """Reset the count of attempts that broke off, because this attempt has made progress."""
    yield Statement("reset_job", (kind, tenant, job_id))


def beat(owner: str) -> Script[None]:
    """Record a sign of life."""
    yield Statement("beat", (owner,))


def release(owner: str) -> Script[None]:
    """Release all jobs of an owner that shuts down; they do not count as broken off."""
    yield Statement("release_jobs", (owner,))
    yield Statement("delete_owner", (owner,))


def _claim_of(job: Job) -> tuple[str, str, str, str, int]:
    return job.kind, job.tenant, job.id, job.owner, job.token


def _job(row: Row, owner: str) -> Job:
    kind, tenant, job_id, token, failures, broken_off = row
    return Job(
        kind=kind,
        tenant=tenant,
        id=job_id,
        owner=owner,
        token=token,
        failures=failures,
        broken_off=broken_off,
    )
