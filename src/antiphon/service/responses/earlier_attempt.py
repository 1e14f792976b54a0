"""What an earlier attempt at a background response has left."""

from collections.abc import Sequence

from msgspec import Struct

from antiphon.protocol.events import Event, OutputItemDone
from antiphon.protocol.items import HOSTED_ITEMS, Item
from antiphon.protocol.response import Response
from antiphon.protocol.tool_items import McpCall
from antiphon.store.base import NONE_PRIVATE, PrivateSides


class EarlierAttempt(Struct, frozen=True):
    """What an attempt that broke off has left: the response at its start, and every event it stored."""

    response: Response
    events: Sequence[Event]
    private: PrivateSides = NONE_PRIVATE
    """The private sides of items of the input, and of its finished items."""
    sealed_tools: str | None = None

    def finished_items(self) -> list[Item]:
        """The items that it completed; the model continues after them."""
        done = [event.item for event in self.events if isinstance(event, OutputItemDone)]
        return [item for item in done if item.status == "completed"]

    def hosted_calls(self) -> int:
        """The calls of hosted tools that it completed; they are not run again."""
        return sum(isinstance(item, (*HOSTED_ITEMS, McpCall)) for item in self.finished_items())
