"""Lists and trees of responses: ``GET /v1/responses`` and ``GET /v1/responses/{id}/chain``."""

from collections.abc import Sequence
from typing import Any, ClassVar, get_args

import msgspec

from antiphon.caller import READ
from antiphon.errors import InvalidRequest, UpgradeRequired
from antiphon.protocol.ids import RESPONSE_ID
from antiphon.protocol.response import ResponseStatus
from antiphon.server.exchange import Exchange
from antiphon.server.query import Query
from antiphon.server.routing import Route
from antiphon.store.summaries import ResponseFilter, ResponseSummary, SummaryStore, Tree

MAX_FILTER_CHARACTERS = 500
STATUSES: tuple[str, ...] = get_args(ResponseStatus)
_LATEST = 2**53


class SummaryRoutes:
    """Shows which responses are stored, without their items."""

    def __init__(self, summaries: SummaryStore) -> None:
        self._summaries = summaries

    async def list(self, exchange: Exchange) -> None:
        """A page of responses: those under way first, then the newest. A WebSocket handshake that a proxy has
        broken gets a 426."""
        if exchange.header_values("upgrade"):
            raise UpgradeRequired
        query = exchange.query()
        found = await self._summaries.responses(exchange.caller.tenant, _filter(query), query.page())
        await exchange.send_json(_page([_summary(each) for each in found.summaries], more=found.has_more))

    async def list_conversations(self, exchange: Exchange) -> None:
        """A page of conversations, the newest first."""
        page = exchange.query().page()
        found = await self._summaries.conversations(exchange.caller.tenant, page)
        data = [{"object": "conversation", **msgspec.structs.asdict(each)} for each in found.conversations]
        await exchange.send_json(_page(data, more=found.has_more))

    async def chain(self, exchange: Exchange, response_id: str) -> None:
        """The responses that share a history with this one."""
        tree = await self._summaries.tree(exchange.caller.tenant, response_id)
        await exchange.send_json(msgspec.json.encode(_tree(tree)))

    ROUTES: ClassVar = (
        Route("GET /v1/responses", list, READ, stateful=True, websocket=True),
        Route("GET /v1/conversations", list_conversations, READ, stateful=True),
        Route("GET /v1/responses/{id}/chain", chain, READ, stateful=True, id_form=RESPONSE_ID),
    )


def _filter(query: Query) -> ResponseFilter:
    status = _text(query, "status")
    if status is not None and status not in STATUSES:
        known = ", ".join(f"'{name}'" for name in STATUSES)
        message = f"Invalid value for 'status': '{status[:100]}'; use one of {known}."
        raise InvalidRequest(message, param="status", code="invalid_value")
    return ResponseFilter(
        status=status,
        model=_text(query, "model"),
        key_id=_text(query, "key_id"),
        tool=_text(query, "tool"),
        conversation=_text(query, "conversation"),
        background=query.flag("background") if query.text("background") is not None else None,
        created_after=query.number("created_after", least=0, most=_LATEST),
        created_before=query.number("created_before", least=0, most=_LATEST),
        text=_text(query, "text"),
    )


def _text(query: Query, name: str) -> str | None:
    """A filter; one that is empty filters nothing."""
    value = query.text(name)
    if value is not None and (len(value) > MAX_FILTER_CHARACTERS or "\0" in value):
        message = f"'{name}' has at most {MAX_FILTER_CHARACTERS} characters, and no NUL."
        raise InvalidRequest(message, param=name, code="invalid_value")
    return value or None


def _page(data: Sequence[dict[str, Any]], *, more: bool) -> bytes:
    return msgspec.json.encode(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": more,
        }
    )


def _summary(found: ResponseSummary) -> dict[str, Any]:
    response = found.response
    return {
        "object": "response.summary",
        "id": response.id,
        "status": response.status,
        "model": response.model,
        "created_at": response.created_at,
        "completed_at": response.completed_at,
        "previous_response_id": found.parent,
        "conversation": found.conversation,
        "background": found.background,
        "key_id": found.key_id,
        "tools": found.tools,
        "input_preview": found.input_preview,
        "output_preview": found.output_preview,
        "usage": response.usage,
        "error": response.error,
        "incomplete_details": response.incomplete_details,
        "first_token_ms": found.first_token_ms,
        "total_ms": found.total_ms,
        "upstream": found.upstream,
        "trace": found.trace,
        "forks": found.forks,
    }


def _tree(tree: Tree) -> dict[str, Any]:
    return {
        "object": "response.chain",
        "root": tree.root,
        "conversation": tree.conversation,
        "truncated": tree.truncated,
        "nodes": tree.nodes,
    }
