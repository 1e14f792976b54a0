"""What an earlier attempt at a background response has left."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.events import Event, McpCallArgumentsDone, OutputItemAdded, OutputItemDone
from antiphon.protocol.items import HOSTED_ITEMS, Item
from antiphon.protocol.response import Response, Usage
from antiphon.protocol.tool_items import ImageGenerationCall, McpCall, McpListTools, ShellCallOutput
from antiphon.store.base import NONE_PRIVATE, PrivateSides, Progress

_Effect = McpCall | ImageGenerationCall | ShellCallOutput
_EFFECTS = (McpCall, ImageGenerationCall, ShellCallOutput)
"""Calls that change something, or cost money. Runs of code change their container only, which has ended."""


class EarlierAttempt(Struct, frozen=True):
    """What an attempt that broke off has left: the response at its start, and every event it stored."""

    response: Response
    events: Sequence[Event]
    private: PrivateSides = NONE_PRIVATE
    """The private sides of items of the input, and of its finished items."""
    sealed_tools: str | None = None
    progress: Progress | None = None
    """What it has used, with the attempts before it; None: it stored nothing."""

    def finished_items(self) -> list[Item]:
        """The items that it completed; the model continues after them. Calls that have effects are among them
        even if they were cut off: their outcome is unknown, and they must not run again."""
        done = [event.item for event in self.events if isinstance(event, OutputItemDone)]
        found: list[Item] = [
            item for item in done if item.status == "completed" or isinstance(item, _EFFECTS)
        ]
        return found if (cut_off := self._cut_off_call()) is None else [*found, cut_off]

    def hosted_calls(self) -> int:
        """The calls of hosted tools that it completed; they are not run again."""
        return sum(
            isinstance(item, (*HOSTED_ITEMS, McpCall, ShellCallOutput)) and not isinstance(item, McpListTools)
            for item in self.finished_items()
        )

    @property
    def spent(self) -> Usage | None:
        """The usage of rounds that had ended."""
        return None if self.progress is None else self.progress.usage

    def _cut_off_call(self) -> _Effect | None:
        """The call with effects that had begun and not ended."""
        call: _Effect | None = None
        for event in self.events:
            if isinstance(event, OutputItemAdded):
                call = event.item if isinstance(event.item, _EFFECTS) else None
            elif isinstance(event, OutputItemDone):
                call = None
            elif isinstance(call, McpCall) and isinstance(event, McpCallArgumentsDone):
                call = replace(call, arguments=event.arguments)
        return None if call is None else replace(call, status="incomplete")
