"""`none`, the store that keeps nothing: whoever asks for state is told to send the history."""

from collections.abc import Sequence
from typing import NoReturn

from antiphon.errors import Unsupported
from antiphon.protocol.items import Item
from antiphon.store.base import StoredResponse, response_not_found


class NoStore:
    """Keeps nothing, says so."""

    async def save(self, tenant: str, stored: StoredResponse) -> None:
        """Nothing is kept."""

    async def load(self, tenant: str, response_id: str) -> StoredResponse:
        """Nothing is found."""
        raise response_not_found(response_id, None)

    async def history(self, tenant: str, response_id: str) -> Sequence[Item]:
        """There is no history here."""
        self._refuse("previous_response_id")

    async def item(self, tenant: str, item_id: str) -> Item:
        """There are no items here."""
        self._refuse("input")

    async def aclose(self) -> None:
        """Nothing to let go of."""

    @staticmethod
    def _refuse(param: str) -> NoReturn:
        message = "This server keeps no state. Send the full conversation history in 'input' instead."
        raise Unsupported(message, param=param, code="unsupported_parameter")
