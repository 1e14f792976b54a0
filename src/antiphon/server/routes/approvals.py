"""``GET /v1/approvals``: everything of a tenant that waits for a person."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.caller import READ, Caller
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.server.exchange import Exchange
from antiphon.server.query import MAX_LIMIT
from antiphon.server.routing import Route
from antiphon.service.stored import StoredResponses

PAGE_LIMIT = 20


class ApprovalObject(Struct, frozen=True, kw_only=True):
    """A call that a person must approve."""

    object: str = "approval"
    id: str
    kind: Literal["mcp", "agent"]
    response_id: str | UnsetType = UNSET
    """The response to continue with an `mcp_approval_response`."""
    run_id: str | UnsetType = UNSET
    """The run whose approvals take the answer."""
    server_label: str | None = None
    name: str
    arguments: str
    created_at: int


class ApprovalRoutes:
    """Lists approvals; they are answered where they were asked for."""

    def __init__(self, stored: StoredResponses, runs: AgentRuns | None) -> None:
        self._stored = stored
        self._runs = runs

    async def list(self, exchange: Exchange) -> None:
        """The newest first. A request of an MCP tool within a run belongs to the run."""
        limit = exchange.query().number("limit", least=1, most=MAX_LIMIT) or PAGE_LIMIT
        of_runs = await self._of_runs(exchange.caller, limit + 1)
        taken = {each.id for each in of_runs}
        found = [
            *of_runs,
            *(each for each in await self._of_responses(exchange.caller, limit + 1) if each.id not in taken),
        ]
        found.sort(key=lambda each: (each.created_at, each.id), reverse=True)
        page = found[:limit]
        listed = {
            "object": "list",
            "data": page,
            "first_id": page[0].id if page else "",
            "last_id": page[-1].id if page else "",
            "has_more": len(found) > limit,
        }
        await exchange.send_json(msgspec.json.encode(listed))

    async def _of_runs(self, caller: Caller, limit: int) -> Sequence[ApprovalObject]:
        waiting = [] if self._runs is None else await self._runs.waiting(caller, limit)
        return [
            ApprovalObject(
                id=request.id,
                kind="agent",
                run_id=each.run.id,
                server_label=request.server_label,
                name=request.name,
                arguments=request.arguments,
                created_at=each.run.created_at,
            )
            for each in waiting
            for request in each.approvals
        ]

    async def _of_responses(self, caller: Caller, limit: int) -> Sequence[ApprovalObject]:
        return [
            ApprovalObject(
                id=each.id,
                kind="mcp",
                response_id=each.response_id,
                server_label=each.request.server_label,
                name=each.request.name,
                arguments=each.request.arguments,
                created_at=each.created_at,
            )
            for each in await self._stored.open_approvals(caller, limit)
        ]

    ROUTES: ClassVar = (Route("GET /v1/approvals", list, READ),)
