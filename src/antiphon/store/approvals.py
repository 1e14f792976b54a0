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


def take(tenant: str, request_ids: Sequence[str]) -> Script[None]:
    """Record answers before their calls run. Raises `InvalidRequest` if another response, perhaps on another
    branch, has answered one of them. Requests that no response has made here are not known."""
    for request_id in request_ids:
        taken = yield Statement("take_approval", (tenant, request_id))
        if not taken and (yield Statement("approval", (tenant, request_id))):
            message = (
                f"The approval request '{request_id}' was already answered. Continue the response that has "
                "answered it."
            )
            raise InvalidRequest(message, param="input", code=APPROVAL_ANSWERED)


def open_ones(tenant: str, limit: int, now: int) -> Script[Sequence[OpenApproval]]:
    """The requests that wait, newest first."""
    rows = yield Statement("open_approvals", (tenant, now, limit, MAX_SCANNED_APPROVALS))
    found: list[OpenApproval] = []
    for approval_id, response_id, created_at, kind, body in rows:
        item = item_from_text(kind, body)
        assert isinstance(item, McpApprovalRequest)
        found.append(OpenApproval(approval_id, response_id, created_at, item))
    return found
