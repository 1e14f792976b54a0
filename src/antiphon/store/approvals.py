"""Scripts of approval requests: those of MCP tools in stored responses, and whether they were answered."""

from collections.abc import Sequence

from msgspec import Struct

from antiphon.errors import APPROVAL_ANSWERED, InvalidRequest
from antiphon.protocol.items import Item
from antiphon.protocol.stored_items import item_from_text, item_id, item_to_text, item_type
from antiphon.protocol.tool_items import McpApprovalRequest, McpApprovalResponse
from antiphon.store.base import StoredResponse
from antiphon.store.database import Script, Statement

MAX_SCANNED_APPROVALS = 1_000
"""The newest requests of a tenant among which open ones are looked for."""
MAX_TAKEN_APPROVALS = 10_000
"""The newest answers of a tenant, to requests of responses that are not stored, that are remembered."""
TAKEN_LIFETIME_SECONDS = 30 * 24 * 3600
"""How long they are remembered."""


class OpenApproval(Struct, frozen=True):
    """A request that waits for a person."""

    id: str
    response_id: str
    created_at: int
    request: McpApprovalRequest


def note(tenant: str, stored: StoredResponse) -> Script[None]:
    """Record the requests of a response, and the answers in its input."""
    response = stored.response
    rows = [
        (tenant, item_id(item), response.id, response.created_at, item_type(item), item_to_text(item))
        for item in response.output
        if isinstance(item, McpApprovalRequest)
    ]
    if rows:
        yield Statement("add_approval", rows, many=True)
    if answers := answered(stored.input):
        yield Statement("answer_approval", [(tenant, request_id) for request_id in answers], many=True)


def answered(items: Sequence[Item]) -> list[str]:
    """The requests that these items answer."""
    return [item.approval_request_id for item in items if isinstance(item, McpApprovalResponse)]


def take(tenant: str, request_ids: Sequence[str], now: int) -> Script[None]:
    """Record answers before their calls run. Raises `InvalidRequest` if another response, perhaps on another
    branch, has answered one of them. An answer to a request that no stored response has made is recorded,
    too: it is erased after some time."""
    added = False
    for request_id in request_ids:
        if (yield Statement("take_approval", (tenant, request_id))):
            continue
        if not (yield Statement("add_taken_approval", (tenant, request_id, now))):
            raise already_answered(request_id)
        added = True
    if added:
        yield Statement("trim_taken_approvals", (tenant, MAX_TAKEN_APPROVALS))


def already_answered(request_id: str) -> InvalidRequest:
    """The error for a second answer."""
    message = (
        f"The approval request '{request_id}' was already answered, and a call runs only once. Continue the "
        "response that has answered it; if that one is not stored, let the model make the call again."
    )
    return InvalidRequest(message, param="input", code=APPROVAL_ANSWERED)


def sweep(now: int, limit: int) -> Script[int]:
    """Erase old answers to requests of responses that are not stored; how many."""
    old = yield Statement("old_taken_approvals", (now - TAKEN_LIFETIME_SECONDS, limit))
    if old:
        yield Statement("delete_approval", [tuple(row) for row in old], many=True)
    return len(old)


def open_ones(tenant: str, limit: int, now: int) -> Script[Sequence[OpenApproval]]:
    """The requests that wait, newest first."""
    rows = yield Statement("open_approvals", (tenant, now, limit, MAX_SCANNED_APPROVALS))
    found: list[OpenApproval] = []
    for approval_id, response_id, created_at, kind, body in rows:
        item = item_from_text(kind, body)
        assert isinstance(item, McpApprovalRequest)
        found.append(OpenApproval(approval_id, response_id, created_at, item))
    return found
