"""Scripts of summaries. Lists are read from an index alone; rows are read for one page only."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.store.base import UNFINISHED, Page, response_not_found
from antiphon.store.bodies import response_from_text
from antiphon.store.database import Row, Script, Statement
from antiphon.store.stats import MAX_NAME_CHARACTERS, tool_word
from antiphon.store.summaries import (
    MAX_TEXT_CANDIDATES,
    MAX_TREE_NODES,
    MAX_UNFINISHED,
    ConversationPage,
    ConversationSummary,
    ResponseFilter,
    ResponseSummary,
    SummaryPage,
    Tree,
    TreeNode,
)

_FOREVER = 2**62
_metadata = msgspec.json.Decoder(dict[str, str])

Place = tuple[int, str]
"""When a response was created, and its id."""


def responses(tenant: str, wanted: ResponseFilter, page: Page, now: int) -> Script[SummaryPage]:
    """A page of responses. `before` alone asks for the page that ends there: it is read backwards."""
    backwards = page.before is not None and page.after is None
    cursor = page.before if backwards else page.after
    descending = (page.order == "desc") is not backwards
    searched = page.limit + 1 if wanted.text is None else MAX_TEXT_CANDIDATES
    ids = yield from _ids(tenant, wanted, cursor, (descending, searched, now))
    if wanted.text is not None:
        args = (tenant, _texts(ids), f"%{_escaped(wanted.text.lower())}%")
        found = {row[0] for row in (yield Statement("responses_with_text", args))}
        ids = [each for each in ids if each in found]
    chosen = ids[: page.limit]
    summaries = yield from _summaries(tenant, chosen)
    return SummaryPage(summaries[::-1] if backwards else summaries, len(ids) > page.limit)


def _ids(
    tenant: str, wanted: ResponseFilter, cursor: str | None, walk: tuple[bool, int, int]
) -> Script[list[str]]:
    """The ids behind the cursor, in this direction, at most as many as are searched."""
    descending, limit, now = walk
    place, is_unfinished = None, False
    if cursor is not None:
        rows = yield Statement("place_of_response", (tenant, cursor, now))
        if not rows:
            message = f"There is no response with the id '{cursor[:100]}'. Use the id of one in the list."
            raise InvalidRequest(message, param="after", code="invalid_value")
        place, is_unfinished = (rows[0][1], cursor), rows[0][0] in UNFINISHED
    filters = _filters(tenant, wanted, now)
    ids: list[str] = []
    if descending and (place is None or is_unfinished):
        ids += yield from _unfinished(filters, place, descending=True)
        place = None
    if descending or not is_unfinished:
        name = "ended_responses_downwards" if descending else "ended_responses_upwards"
        created_at, after = place or (None, None)
        if len(ids) < limit:
            rows = yield Statement(name, (*filters, created_at, after, limit - len(ids)))
            ids += [row[0] for row in rows]
        place = None
    if not descending and len(ids) < limit:
        ids += yield from _unfinished(filters, place, descending=False)
    return ids[:limit]


def _unfinished(filters: Sequence[Any], place: Place | None, *, descending: bool) -> Script[list[str]]:
    rows = yield Statement("unfinished_responses", (*filters, MAX_UNFINISHED))
    places = [(row[1], row[0]) for row in rows]
    if not descending:
        return [each[1] for each in reversed(places) if place is None or each > place]
    return [each[1] for each in places if place is None or each < place]


def _filters(tenant: str, wanted: ResponseFilter, now: int) -> tuple[Any, ...]:
    """The first ten parameters of the statements that list ids."""
    tool = None if wanted.tool is None else f"% {_escaped(tool_word(wanted.tool))} %"
    return (
        *(tenant, now, wanted.created_after or 0),
        _FOREVER if wanted.created_before is None else wanted.created_before,
        wanted.status,
        wanted.model and wanted.model[:MAX_NAME_CHARACTERS],
        *(wanted.key_id, tool, wanted.conversation),
        None if wanted.background is None else int(wanted.background),
    )


def _escaped(text: str) -> str:
    """A text that stands for itself in a pattern of LIKE."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_").replace("\0", "")


def _texts(ids: Sequence[str]) -> str:
    return msgspec.json.encode(ids).decode()


def _summaries(tenant: str, ids: Sequence[str]) -> Script[list[ResponseSummary]]:
    """The summaries of these responses, in this order."""
    if not ids:
        return []
    rows = yield Statement("summaries_of_responses", (tenant, _texts(ids)))
    found = {row[0]: _summary(row) for row in rows}
    return [found[each] for each in ids if each in found]


def _summary(row: Row) -> ResponseSummary:
    _, status, body, _, parent, conversation, background, key_id, tools, asked, answered, *rest = row
    first_token_ms, total_ms, upstream, trace, forks = rest
    response = response_from_text(body, status)
    return ResponseSummary(
        response=response,
        parent=parent,
        conversation=conversation,
        background=response.background if background is None else bool(background),
        key_id=key_id,
        tools=tuple((tools or "").split()),
        input_preview=asked or "",
        output_preview=answered or "",
        first_token_ms=first_token_ms,
        total_ms=total_ms,
        upstream=upstream,
        trace=bool(trace),
        forks=forks,
    )


def tree(tenant: str, response_id: str, now: int) -> Script[Tree]:
    """The tree that a response is in: its chain, the chain that this continues, and all other branches."""
    rows = yield Statement("place_of_response", (tenant, response_id, now))
    if not rows:
        raise response_not_found(response_id)
    chain, conversation = rows[0][2:4]
    if chain is None:  # an unfinished response that continues nothing
        [own] = yield from _summaries(tenant, [response_id])
        return Tree(response_id, None, truncated=False, nodes=[_own_node(own)])
    path = yield Statement("path", (tenant, chain, 0))
    found = yield Statement("tree_of_responses", (tenant, path[-1][0], now, MAX_TREE_NODES + 1))
    truncated = len(found) > MAX_TREE_NODES
    nodes = _nodes(found[:MAX_TREE_NODES])
    if all(node.id != response_id for node in nodes):
        [own] = yield from _summaries(tenant, [response_id])
        nodes = [*nodes[: MAX_TREE_NODES - 1], _own_node(own)]
    known = {node.id for node in nodes}
    nodes = [node if node.parent in known else replace(node, parent=None) for node in nodes]
    nodes.sort(key=lambda node: (node.created_at, node.id))
    root = next((node.id for node in nodes if node.parent is None), response_id)
    return Tree(root, conversation, truncated, nodes)


def _nodes(rows: Sequence[Row]) -> list[TreeNode]:
    """The nodes of rows. In a conversation a response continues the one that ended before it began."""
    last_in: dict[str, str] = {}
    nodes: list[TreeNode] = []
    for row in sorted(rows, key=lambda row: (row[2], row[3], row[6], row[0])):
        own, parent, chain, _, status, model, created_at, asked, answered, total_ms, *rest = row
        input_preview, output_preview, conversation, compaction = rest
        if parent is None and conversation is not None:
            parent = last_in.get(chain)
        last_in[chain] = own
        node = TreeNode(
            id=own,
            parent=parent,
            status=status,
            model=model,
            created_at=created_at,
            input_tokens=asked,
            output_tokens=answered,
            total_ms=total_ms,
            compaction=bool(compaction),
            input_preview=input_preview or "",
            output_preview=output_preview or "",
        )
        nodes.append(node)
    return nodes


def _own_node(summary: ResponseSummary) -> TreeNode:
    response, usage = summary.response, summary.response.usage
    return TreeNode(
        id=response.id,
        parent=summary.parent,
        status=response.status,
        model=response.model,
        created_at=response.created_at,
        input_tokens=None if usage is None else usage.input_tokens,
        output_tokens=None if usage is None else usage.output_tokens,
        total_ms=summary.total_ms,
        compaction=False,
        input_preview=summary.input_preview,
        output_preview=summary.output_preview,
    )


def conversations(tenant: str, page: Page) -> Script[ConversationPage]:
    """A page of conversations. Their ids begin with the time of their creation."""
    backwards = page.before is not None and page.after is None
    cursor = page.before if backwards else page.after
    descending = (page.order == "desc") is not backwards
    name = "list_conversations" if descending else "list_conversations_upwards"
    rows = yield Statement(name, (tenant, cursor, page.limit + 1))
    found = [_conversation(row) for row in rows[: page.limit]]
    return ConversationPage(found[::-1] if backwards else found, len(rows) > page.limit)


def _conversation(row: Row) -> ConversationSummary:
    conversation_id, created_at, metadata, count, last = row
    return ConversationSummary(
        id=conversation_id,
        created_at=created_at,
        metadata=_metadata.decode(metadata),
        response_count=count,
        last_active_at=created_at if last is None else max(last, created_at),
    )


def of_request(tenant: str, request_id: str, now: int) -> Script[str | None]:
    """The response that a request has created."""
    rows = yield Statement("response_of_request", (tenant, request_id, now))
    return rows[0][0] if rows else None


def of_item(tenant: str, item_id: str) -> Script[str | None]:
    """The response of an item; None for one that was added to a conversation."""
    rows = yield Statement("response_of_item", (tenant, item_id))
    return rows[0][0] if rows else None
