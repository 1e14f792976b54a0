"""`none`, the store that keeps nothing: whoever asks for state is told to send the history."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from antiphon.errors import NotFound, Unsupported
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.store.base import (
    NONE_PRIVATE,
    ApiKey,
    Claim,
    Continuation,
    Conversation,
    Events,
    Fenced,
    ItemPage,
    Page,
    PrivateSides,
    StoredItem,
    StoredResponse,
    Unowned,
    conversation_not_found,
    response_not_found,
)
from antiphon.store.signals import LocalSignals, Signals


class NoStore:
    """Keeps nothing, says so."""

    def __init__(self) -> None:
        self._signals = LocalSignals()

    @property
    def signals(self) -> Signals:
        """Nobody has anything to say."""
        return self._signals

    async def check(self) -> None:
        """Nothing can go wrong."""

    # Responses

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        """Nothing is kept."""

    async def response(self, tenant: str, response_id: str) -> Response:
        """Nothing is found."""
        raise response_not_found(response_id)

    async def continuation(self, tenant: str, response_id: str) -> Continuation:
        """There is no history here."""
        _refuse("previous_response_id")

    async def item(self, tenant: str, item_id: str) -> StoredItem:
        """There are no items here."""
        _refuse("input")

    async def input_items(self, tenant: str, response_id: str, page: Page) -> ItemPage:
        """Nothing is found."""
        raise response_not_found(response_id)

    async def delete(self, tenant: str, response_id: str) -> None:
        """Nothing is found."""
        raise response_not_found(response_id)

    async def list_responses(
        self, tenant: str, *, limit: int, after: str | None = None, conversation: str | None = None
    ) -> Sequence[StoredResponse]:
        """There are none."""
        return ()

    # Conversations

    async def add_conversation(
        self,
        tenant: str,
        conversation: Conversation,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """It could not be kept."""
        _refuse("conversation")

    async def conversation(self, tenant: str, conversation_id: str) -> Conversation:
        """Nothing is found."""
        raise conversation_not_found(conversation_id)

    async def set_metadata(
        self, tenant: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation:
        """Nothing is found."""
        raise conversation_not_found(conversation_id)

    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        """Nothing is found."""
        raise conversation_not_found(conversation_id)

    async def add_items(
        self,
        tenant: str,
        conversation_id: str,
        items: Sequence[Item],
        private: PrivateSides = NONE_PRIVATE,
    ) -> None:
        """Nothing is found."""
        raise conversation_not_found(conversation_id)

    async def conversation_items(self, tenant: str, conversation_id: str, page: Page) -> ItemPage:
        """Nothing is found."""
        raise conversation_not_found(conversation_id)

    async def conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Item:
        """Nothing is found."""
        raise conversation_not_found(conversation_id)

    async def delete_item(self, tenant: str, conversation_id: str, item_id: str) -> None:
        """Nothing is found."""
        raise conversation_not_found(conversation_id)

    async def enter(self, tenant: str, conversation_id: str, response_id: str, lease: float) -> Continuation:
        """There is no history here."""
        _refuse("conversation")

    async def leave(self, tenant: str, conversation_id: str, response_id: str) -> None:
        """Nobody is in."""

    # Runs

    async def submit(
        self, tenant: str, stored: StoredResponse, request: bytes, events: Events, owner: str
    ) -> None:
        """What is made in the background could not be fetched."""
        message = "This server keeps no state, so it makes no responses in the background. Leave it out."
        raise Unsupported(message, param="background", code="unsupported_parameter")

    async def claim(
        self, tenant: str, response_id: str, owner: str, lease: float | None = None
    ) -> Claim | None:
        """There is nothing to claim."""

    async def base(self, tenant: str, response_id: str) -> Continuation:
        """Nothing is found."""
        raise response_not_found(response_id)

    async def append(self, tenant: str, response_id: str, token: int, events: Events) -> None:
        """Nobody has claimed anything."""
        raise Fenced

    async def finish(self, tenant: str, token: int, stored: StoredResponse, events: Events) -> None:
        """Nobody has claimed anything."""
        raise Fenced

    async def events(self, tenant: str, response_id: str, after: int) -> tuple[Sequence[Events], bool]:
        """Nothing is found."""
        raise response_not_found(response_id)

    async def beat(self, owner: str) -> None:
        """Nobody owns anything."""

    async def release(self, owner: str) -> None:
        """Nobody owns anything."""

    async def unowned(self, lease: float, owner: str = "") -> Sequence[Unowned]:
        """There is nothing to own."""
        return ()

    # Keys

    async def add_key(self, key: ApiKey) -> None:
        """It could not be kept."""
        message = "This server keeps no state, so it has no keys of its own. Use a store, or server.api_keys."
        raise Unsupported(message, code="unsupported_parameter")

    async def keys(self) -> Sequence[ApiKey]:
        """There are none."""
        return ()

    async def revoke_key(self, key_id: str, now: int) -> None:
        """Nothing is found."""
        raise NotFound(f"Key with id '{key_id}' not found.")

    # Upkeep

    async def sweep(self) -> int:
        """There is nothing to erase."""
        return 0

    async def aclose(self) -> None:
        """Nothing to let go of."""


def _refuse(param: str) -> NoReturn:
    message = "This server keeps no state. Send the full conversation history in 'input' instead."
    raise Unsupported(message, param=param, code="unsupported_parameter")
