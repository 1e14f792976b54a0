"""The port that every store implements."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.errors import NotFound
from antiphon.protocol.items import Item
from antiphon.protocol.response import Response
from antiphon.protocol.tools import Tool


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A response with what is needed to go on from it. `parent` is the response that it continues."""

    response: Response
    parent: str | None
    input: tuple[Item, ...]
    tools: tuple[Tool, ...]


class Store(Protocol):
    """Keeps responses per tenant. An unknown id and a foreign one are the same `NotFound`."""

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        """Keep it; when this returns, a crash does not lose it (as far as the medium allows)."""
        ...

    async def load(self, tenant: str, response_id: str) -> StoredResponse:
        """One response."""
        ...

    async def history(self, tenant: str, response_id: str) -> Sequence[Item]:
        """All items up to and including this response's output, oldest first."""
        ...

    async def item(self, tenant: str, item_id: str) -> Item:
        """One stored item, input or output."""
        ...

    async def aclose(self) -> None:
        """Let go of files and connections."""
        ...


def response_not_found(response_id: str, param: str | None) -> NotFound:
    """The one 404 for unknown, foreign, deleted and expired responses."""
    return NotFound(
        f"Response with id '{response_id}' not found.",
        param=param,
        code="previous_response_not_found" if param == "previous_response_id" else "not_found",
    )


def item_not_found(item_id: str) -> NotFound:
    """The one 404 for items."""
    return NotFound(f"Item with id '{item_id}' not found.", param="input", code="not_found")
