"""Scripts of traces: sealed records of what was sent upstream for a response, and what came back."""

from antiphon.errors import NotFound
from antiphon.protocol.response import Response
from antiphon.store.base import response_not_found
from antiphon.store.database import Script, Statement
from antiphon.store.summaries import StoredTrace


def add(tenant: str, response: Response, trace: bytes) -> Script[None]:
    """Save the trace of a response, in the transaction that saves the response."""
    yield Statement("add_trace", (tenant, response.id, response.created_at, trace))


def find(tenant: str, response_id: str, now: int) -> Script[StoredTrace]:
    """The trace of a response."""
    places = yield Statement("place_of_response", (tenant, response_id, now))
    if not places:
        raise response_not_found(response_id)
    rows = yield Statement("find_trace", (tenant, response_id))
    if not rows:
        raise NotFound(
            f"No trace of response '{response_id}' is stored. Send the header 'antiphon-trace: record' with "
            "a request, or set 'trace.record' to 'all', to record one.",
            code="trace_not_recorded",
        )
    return StoredTrace(rows[0][0], places[0][4])


def sweep(before: int, limit: int) -> Script[int]:
    """Erase traces of responses that were created before this time; return how many."""
    rows = [tuple(row) for row in (yield Statement("old_traces", (before, limit)))]
    if rows:
        yield Statement("delete_trace", rows, many=True)
    return len(rows)
