"""Scripts of responses: keeping, reading, listing and forgetting them."""

from collections.abc import Sequence

from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.protocol.stored_items import item_from_text
from antiphon.store import approvals, chains, conversations, histories, pages, traces
from antiphon.store.base import (
    UNFINISHED,
    ItemPage,
    Page,
    StoredItem,
    StoredResponse,
    item_not_found,
    not_finished,
    response_not_found,
)
from antiphon.store.bodies import (
    input_from_text,
    items_from_rows,
    response_from_text,
    response_to_text,
    tools_from_text,
)
from antiphon.store.chains import AlreadyStored, Position
from antiphon.store.database import Row, Script, Statement
from antiphon.store.histories import Beginning
from antiphon.store.stats import stats_columns

_KEPT = frozenset({"completed", "incomplete"})


def save(tenant: str, stored: StoredResponse) -> Script[None]:
    """Keep a finished response."""
    response, items = stored.response, own_items(stored)
    at = yield from _place(tenant, stored, len(items))
    row = (
        *(tenant, response.id, at.chain, at.pos, at.pos + len(stored.input), at.pos + len(items)),
        *(stored.parent, stored.conversation, response.status, response_to_text(response)),
        *(None, None, response.created_at, stored.expires_at, None, stored.sealed_tools),
        *stats_columns(stored.stats, response, stored.input),
    )
    if not (yield Statement("add_response", row)):
        raise AlreadyStored
    yield from chains.put(tenant, at, items, stored.private, response.id)
    yield from approvals.note(tenant, stored)
    if stored.trace is not None:
        yield from traces.add(tenant, response, stored.trace)


def own_items(stored: StoredResponse) -> list[Item]:
    """What a response adds to its history."""
    return [*stored.input, *stored.response.output]


def _place(tenant: str, stored: StoredResponse, length: int) -> Script[Position]:
    response_id = stored.response.id
    if stored.conversation is not None:
        kept = stored.response.status in _KEPT
        return (yield from conversations.place(tenant, stored.conversation, response_id, length, kept=kept))
    if stored.parent is None:
        return (yield from chains.start(tenant, response_id, length))
    at = yield from end_of(tenant, stored.parent)
    room = yield from chains.extend(tenant, at, length)
    if room is not None:
        return room
    # With the chain locked nobody can delete the parent; somebody may have done it just before.
    yield Statement("lock_chain", (tenant, at.chain))
    at = yield from end_of(tenant, stored.parent)
    return (yield from chains.branch(tenant, at, response_id, length))


def place_finished(tenant: str, stored: StoredResponse, at: Position | None, length: int) -> Script[Position]:
    """Room for a response that has stood at `at` until now. It stays there if its conversation is gone."""
    response_id, conversation = stored.response.id, stored.conversation
    if conversation is not None and (yield from conversations.exists(tenant, conversation)):
        kept = stored.response.status in _KEPT
        return (yield from conversations.place(tenant, conversation, response_id, length, kept=kept))
    if at is None:
        return (yield from chains.start(tenant, response_id, length))
    room = yield from chains.extend(tenant, at, length)
    return room or (yield from chains.branch(tenant, at, response_id, length))


def end_of(tenant: str, response_id: str) -> Script[Position]:
    """Where one goes on from a response."""
    rows = yield Statement("end_of_response", (tenant, response_id))
    if not rows:
        raise response_not_found(response_id, "previous_response_id")
    chain, end, status = rows[0]
    if status in UNFINISHED:
        raise not_finished(response_id, status)
    return Position(chain, end)


def _find(tenant: str, response_id: str, now: int, param: str | None = None) -> Script[Row]:
    """Chain, start of the output, end, status, body, input and sealed tools."""
    rows = yield Statement("find_response", (tenant, response_id, now))
    if not rows:
        raise response_not_found(response_id, param)
    return rows[0]


def find(tenant: str, response_id: str, now: int) -> Script[Response]:
    """One response."""
    chain, output, end, status, body, *_ = yield from _find(tenant, response_id, now)
    if status in UNFINISHED:
        return response_from_text(body, status)
    rows = yield Statement("items_between", (tenant, chain, output, end))
    return response_from_text(body, status, items_from_rows(rows))


def continuation(tenant: str, response_id: str, now: int) -> Script[Beginning]:
    """What a next turn needs, with the beginning of the history."""
    row = yield from _find(tenant, response_id, now, "previous_response_id")
    chain, _, end, status, body, _, sealed_tools = row
    if status in UNFINISHED:
        raise not_finished(response_id, status)
    found = yield from histories.begin(tenant, Position(chain, end))
    known = replace(found.continuation, tools=tools_from_text(body), sealed_tools=sealed_tools)
    return replace(found, continuation=known)


def item(tenant: str, item_id: str, now: int) -> Script[StoredItem]:
    """One item."""
    rows = yield Statement("find_item", (tenant, item_id, now))
    if not rows:
        raise item_not_found(item_id)
    kind, body, private = rows[0]
    return StoredItem(item_from_text(kind, body), private)


def input_items(tenant: str, response_id: str, page: Page, now: int) -> Script[ItemPage]:
    """A page of what went into a response."""
    chain, output, end, _, _, waiting, _ = yield from _find(tenant, response_id, now)
    segments = yield from pages.path(tenant, chain, end)
    tail, _ = ((), None) if waiting is None else input_from_text(waiting)
    return (yield from pages.cut(tenant, pages.Listing(segments, output or 0, tail), page))


def delete(tenant: str, response_id: str, now: int) -> Script[None]:
    """Forget one response."""
    chain, *_ = yield from _find(tenant, response_id, now)
    yield from chains.forget_responses([(tenant, response_id, chain)])


def newest(
    tenant: str, limit: int, after: str | None, conversation: str | None, now: int
) -> Script[Sequence[StoredResponse]]:
    """Responses by age, newest first."""
    before = None
    if after is not None:
        before = yield from _age(tenant, after, now)
    rows = yield Statement("newest_responses", (tenant, now, conversation, before, after, limit))
    if not rows:
        return []
    (first, first_at, *_), (last, last_at, *_) = rows[0], rows[-1]
    outputs: dict[str, list[Item]] = {}
    between = (tenant, last_at, last, first_at, first, conversation)
    for response_id, kind, body in (yield Statement("outputs_of_responses", between)):
        outputs.setdefault(response_id, []).append(item_from_text(kind, body))
    return [_listed(row, outputs.get(row[0], ())) for row in rows]


def _age(tenant: str, response_id: str, now: int) -> Script[int]:
    rows = yield Statement("age_of_response", (tenant, response_id, now))
    if not rows:
        message = f"'after' names no response: '{response_id}'. Use the id of a response in the list."
        raise InvalidRequest(message, param="after", code="invalid_value")
    return rows[0][0]


def _listed(row: Row, output: Sequence[Item]) -> StoredResponse:
    _, _, status, body, parent, conversation, expires_at = row
    response = response_from_text(body, status, output)
    return StoredResponse(response=response, parent=parent, conversation=conversation, expires_at=expires_at)
