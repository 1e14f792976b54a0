"""Scripts of conversations: a chain of their own, and a lock while a response is made in them."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from antiphon.protocol.content import Metadata
from antiphon.protocol.items import Item
from antiphon.protocol.stored_items import item_from_text
from antiphon.store import chains, histories, pages
from antiphon.store.base import (
    Conversation,
    ItemPage,
    Page,
    PrivateSides,
    conversation_locked,
    conversation_not_found,
    item_not_found,
)
from antiphon.store.bodies import tools_from_text
from antiphon.store.chains import Position
from antiphon.store.database import Script, Statement
from antiphon.store.histories import Beginning

_metadata = msgspec.json.Decoder(Metadata)


def add(
    tenant: str, conversation: Conversation, items: Sequence[Item], private: PrivateSides
) -> Script[None]:
    """A new conversation with its first items."""
    metadata = msgspec.json.encode(conversation.metadata).decode()
    yield Statement("add_conversation", (tenant, conversation.id, metadata, conversation.created_at))
    at = yield from chains.start(tenant, conversation.id, len(items), named=True)
    yield from chains.put(tenant, at, items, private, None)


def find(tenant: str, conversation_id: str) -> Script[Conversation]:
    """One conversation."""
    conversation, _ = yield from _find(tenant, conversation_id)
    return conversation


def _find(tenant: str, conversation_id: str, param: str | None = None) -> Script[tuple[Conversation, int]]:
    """A conversation and the head of its chain."""
    rows = yield Statement("find_conversation", (tenant, conversation_id))
    if not rows:
        raise conversation_not_found(conversation_id, param)
    created_at, metadata, head = rows[0]
    found = Conversation(id=conversation_id, created_at=created_at, metadata=_metadata.decode(metadata))
    return found, head


def set_metadata(tenant: str, conversation_id: str, metadata: Mapping[str, str]) -> Script[Conversation]:
    """Replace the metadata."""
    text = msgspec.json.encode(metadata).decode()
    rows = yield Statement("set_metadata", (tenant, conversation_id, text))
    if not rows:
        raise conversation_not_found(conversation_id)
    return Conversation(id=conversation_id, created_at=rows[0][0], metadata=dict(metadata))


def delete(tenant: str, conversation_id: str) -> Script[None]:
    """Forget a conversation; its chain stays as far as responses need it."""
    if not (yield Statement("delete_conversation", (tenant, conversation_id))):
        raise conversation_not_found(conversation_id)
    yield Statement("unname_chain", (tenant, conversation_id))
    yield from chains.erase_unneeded(tenant, conversation_id)


def add_items(
    tenant: str, conversation_id: str, items: Sequence[Item], private: PrivateSides
) -> Script[None]:
    """Append items by hand."""
    yield from _open(tenant, conversation_id)
    at = yield from _append(tenant, conversation_id, len(items))
    yield from chains.put(tenant, at, items, private, None)


def list_items(tenant: str, conversation_id: str, page: Page) -> Script[ItemPage]:
    """A page of its items."""
    _, head = yield from _find(tenant, conversation_id)
    segments = [pages.Segment(conversation_id, 0, head)]
    return (yield from pages.cut(tenant, pages.Listing(segments, head), page))


def item(tenant: str, conversation_id: str, item_id: str) -> Script[Item]:
    """One of its items."""
    yield from _find(tenant, conversation_id)
    rows = yield Statement("conversation_item", (tenant, conversation_id, item_id))
    if not rows:
        raise item_not_found(item_id, None)
    _, kind, body = rows[0]
    return item_from_text(kind, body)


def delete_item(tenant: str, conversation_id: str, item_id: str) -> Script[None]:
    """Take an item out. Responses that were made with it keep it; if there are none, it is erased."""
    yield from _open(tenant, conversation_id)
    rows = yield Statement("conversation_item", (tenant, conversation_id, item_id))
    if not rows:
        raise item_not_found(item_id, None)
    # The head moves on, so that no later history ends where one ends that has the item.
    [[head]] = yield Statement("move_head", (tenant, conversation_id))
    yield Statement("hide_item", (tenant, conversation_id, rows[0][0], head - 1))
    yield from chains.erase_unneeded(tenant, conversation_id)


def history(tenant: str, conversation_id: str) -> Script[Beginning]:
    """The beginning of what it holds, for a request that is answered with it."""
    at = yield from head_of(tenant, conversation_id)
    return (yield from histories.begin(tenant, at))


def enter(tenant: str, conversation_id: str, response_id: str, lease: float, now: int) -> Script[Beginning]:
    """Lock a conversation for a response, and give the beginning of what it holds."""
    yield from renew(tenant, conversation_id, response_id, lease)
    found = yield from history(tenant, conversation_id)
    last = yield Statement("last_response_in_conversation", (tenant, conversation_id, now))
    if not last:
        return found
    body, sealed_tools = last[0]
    known = replace(found.continuation, tools=tools_from_text(body), sealed_tools=sealed_tools)
    return replace(found, continuation=known)


def renew(tenant: str, conversation_id: str, response_id: str, lease: float) -> Script[None]:
    """Lock a conversation for a response, or lock it for longer."""
    if not (yield Statement("lock_conversation", (tenant, conversation_id, response_id, lease))):
        yield from _refuse(tenant, conversation_id)


def leave(tenant: str, conversation_id: str, response_id: str) -> Script[None]:
    """Release the lock, if this response holds it."""
    yield Statement("unlock_conversation", (tenant, conversation_id, response_id))


def place(
    tenant: str, conversation_id: str, response_id: str, length: int, *, kept: bool
) -> Script[Position]:
    """Room for an ended response, in the conversation if it is `kept` there, else on a branch; unlocks."""
    unlocked = yield Statement("unlock_conversation", (tenant, conversation_id, response_id))
    if kept:
        if not unlocked:
            yield from _refuse(tenant, conversation_id)
        return (yield from _append(tenant, conversation_id, length))
    head = yield from head_of(tenant, conversation_id)
    return (yield from chains.branch(tenant, head, response_id, length))


def head_of(tenant: str, conversation_id: str) -> Script[Position]:
    """Where a conversation ends."""
    _, head = yield from _find(tenant, conversation_id, "conversation")
    return Position(conversation_id, head)


def exists(tenant: str, conversation_id: str) -> Script[bool]:
    """Whether it is still there."""
    return bool((yield Statement("find_conversation", (tenant, conversation_id))))


def _append(tenant: str, conversation_id: str, length: int) -> Script[Position]:
    rows = yield Statement("advance_conversation", (tenant, conversation_id, length))
    return Position(conversation_id, rows[0][0] - length)


def _open(tenant: str, conversation_id: str) -> Script[None]:
    """Make sure that no response is being made in it."""
    if not (yield Statement("open_conversation", (tenant, conversation_id))):
        yield from _refuse(tenant, conversation_id, None)


def _refuse(tenant: str, conversation_id: str, param: str | None = "conversation") -> Script[NoReturn]:
    """The lock could not be had: another response holds it, or there is nothing to lock."""
    yield from _find(tenant, conversation_id, param)
    raise conversation_locked(conversation_id)
