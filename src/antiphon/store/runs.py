"""Scripts of runs: responses that are made in the background, their owners and their event logs."""

from collections.abc import Sequence

from antiphon.errors import AntiphonError
from antiphon.store import (
    approvals,
    chains,
    conversations,
    histories,
    jobs,
    keys,
    responses,
    traces,
)
from antiphon.store.base import (
    EVENT_PAGE_BYTES,
    EVENT_PAGE_ROWS,
    LOG_GAP,
    RESPONSE_JOB,
    UNFINISHED,
    Claim,
    Continuation,
    EventRows,
    Events,
    Fenced,
    Job,
    NewJob,
    StoredResponse,
    is_full_page,
    response_not_found,
)
from antiphon.store.bodies import (
    input_from_text,
    input_to_text,
    progress_from_text,
    progress_to_text,
    response_from_text,
    response_to_text,
    sides_from_text,
    sides_to_text,
    tools_from_text,
)
from antiphon.store.chains import AlreadyStored, Position
from antiphon.store.database import Row, Script, Statement
from antiphon.store.histories import Beginning
from antiphon.store.stats import stats_columns

_ALL_ROWS = 2**31 - 1


def submit(
    tenant: str, stored: StoredResponse, request: bytes, events: Events, owner: str | None
) -> Script[None]:
    """Save a queued response and its job. It pins its parent position, so that the history stays."""
    response = stored.response
    at = yield from _stand(tenant, stored)
    chain, pos = at if at is not None else (None, None)
    row = (
        *(tenant, response.id, chain, pos, pos, pos, stored.parent, stored.conversation, response.status),
        *(response_to_text(response), input_to_text(stored.input, stored.private), request.decode()),
        *(response.created_at, stored.expires_at, events.first + events.count, stored.sealed_tools),
        *stats_columns(stored.stats, response, stored.input),
    )
    if not (yield Statement("add_response", row)):
        raise AlreadyStored
    yield from approvals.take(tenant, approvals.answered(stored.input), response.created_at)
    if stored.trace is not None:
        yield from traces.add(tenant, response, stored.trace)
    yield from jobs.add(NewJob(kind=RESPONSE_JOB, tenant=tenant, id=response.id), owner)
    yield from _log(tenant, response.id, events)


def _stand(tenant: str, stored: StoredResponse) -> Script[Position | None]:
    if stored.conversation is not None:
        return (yield from conversations.head_of(tenant, stored.conversation))
    if stored.parent is None:
        return None
    at = yield from responses.end_of(tenant, stored.parent)
    yield Statement("lock_chain", (tenant, at.chain))
    return (yield from responses.end_of(tenant, stored.parent))


def claim(tenant: str, response_id: str, job: Job | None, now: int) -> Script[Claim | None]:
    """Claim an unfinished response: for a claimed job, or, without a job, to cancel it."""
    if job is not None:
        yield from jobs.fence(job)
    attempt, owner = (None, None) if job is None else (job.broken_off + 1, job.owner)
    rows = yield Statement("claim_response", (tenant, response_id, now, attempt, owner))
    if not rows:
        return None
    token, attempt, status, body, request, waiting, expires_at, sealed_tools, *rest = rows[0]
    traced, key_id, permissions, progress = rest
    items, private = input_from_text(waiting)
    log = yield Statement("events_after", (tenant, response_id, -1, _ALL_ROWS))
    for row in log:
        private = {**private, **sides_from_text(row[3])}
    return Claim(
        token=token,
        attempt=attempt,
        response=response_from_text(body, status),
        request=request.encode(),
        input=tuple(items),
        private=private,
        tools=tools_from_text(body),
        sealed_tools=sealed_tools,
        expires_at=expires_at,
        events=_events([row[:3] for row in log]),
        traced=bool(traced),
        key_id=key_id,
        key_tools=None if key_id is None else keys.usable_tools(permissions),
        progress=progress_from_text(progress),
    )


def base(tenant: str, response_id: str) -> Script[Beginning]:
    """The beginning of the history before the position of an unfinished response."""
    rows = yield Statement("end_of_response", (tenant, response_id))
    if not rows or rows[0][0] is None:
        return Beginning(Continuation(()), 0)
    chain, end, _ = rows[0]
    return (yield from histories.begin(tenant, Position(chain, end)))


def check_base(tenant: str, response_id: str) -> Script[None]:
    """Raise if a response is gone, and with it what keeps the history before it."""
    if not (yield Statement("end_of_response", (tenant, response_id))):
        raise response_not_found(response_id)


def append(tenant: str, response_id: str, token: int, events: Events) -> Script[None]:
    """Append to the log. Repeating it is harmless: the result of the first attempt may have got lost."""
    end = events.first + events.count
    row = (tenant, response_id, token, events.first, end, progress_to_text(events.progress))
    if (yield Statement("progress_response", row)):
        yield from _log(tenant, response_id, events)
        return
    _, _, stored = yield from _fence(tenant, response_id, token)
    if stored != end:
        raise _gap(response_id, stored, events)


def finish(tenant: str, token: int, stored: StoredResponse, events: EventRows) -> Script[None]:
    """Save the last events and the final response."""
    response, items = stored.response, responses.own_items(stored)
    yield from jobs.remove(RESPONSE_JOB, [(tenant, response.id)])
    chain, pos, next_event = yield from _fence(tenant, response.id, token)
    if next_event != events.first:
        raise _gap(response.id, next_event, events)
    before = Position(chain, pos) if chain is not None else None
    at = yield from responses.place_finished(tenant, stored, before, len(items))
    row = (
        *(tenant, response.id, at.chain, at.pos, at.pos + len(stored.input), at.pos + len(items)),
        *(response.status, response_to_text(response), stored.expires_at, events.first + events.count),
        stored.sealed_tools,
        *stats_columns(stored.stats, response, stored.input),
    )
    yield Statement("finish_response", row)
    if stored.trace is not None:
        yield from traces.add(tenant, response, stored.trace)
    yield from chains.put(tenant, at, items, stored.private, response.id)
    yield from approvals.note(tenant, stored)
    for row in events.rows():
        yield from _log(tenant, response.id, row)
        del row  # it is not held while the next one is made


def _fence(tenant: str, response_id: str, token: int) -> Script[Row]:
    """Chain, position and next event of an unfinished response, if this token is the newest."""
    rows = yield Statement("fence_response", (tenant, response_id, token))
    if not rows:
        raise Fenced(f"Response '{response_id}' was claimed by another owner, or it has ended.")
    return rows[0]


def _gap(response_id: str, stored: int, events: Events | EventRows) -> AntiphonError:
    """The error after the database has lost events. The next claim continues from the stored ones."""
    message = (
        f"The log of response '{response_id}' ends before event {stored}, not {events.first}. Claim it again."
    )
    return AntiphonError(message, code=LOG_GAP)


def _log(tenant: str, response_id: str, events: Events) -> Script[None]:
    if events.count:
        private = sides_to_text(events.private)
        row = (tenant, response_id, events.first, events.count, events.data.decode(), private)
        yield Statement("add_events", row)


def _events(rows: Sequence[Row]) -> list[Events]:
    return [Events(first, count, data.encode()) for first, count, data in rows]


def events(tenant: str, response_id: str, after: int, now: int) -> Script[tuple[Sequence[Events], bool]]:
    """The first rows with events after `after`, and whether the response has ended and these are the last."""
    found = yield Statement("find_response", (tenant, response_id, now))
    if not found:
        raise response_not_found(response_id)
    page = (tenant, response_id, after, EVENT_PAGE_ROWS, EVENT_PAGE_BYTES)
    rows = _events((yield Statement("event_page", page)))
    return rows, found[0][3] not in UNFINISHED and not is_full_page(rows)
