"""A layout decides in which order the items of a response are emitted; the machine numbers the events.

`SequentialLayout` and `MessageFirstLayout` implement it; a profile names the one to use.
"""

from collections.abc import Sequence
from typing import Protocol

from antiphon.errors import BackendBroken
from antiphon.protocol.items import OutputItem
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Compacted,
    FinishReason,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    ToolsFound,
)
from antiphon.turn.items import OpenItem

ItemChunk = (
    ItemBegun
    | TextDelta
    | RefusalDelta
    | ReasoningDelta
    | ReasoningSummaryDelta
    | ProviderStateAdded
    | AnnotationAdded
    | CallStarted
    | CallDelta
    | CallFinished
    | Compacted
    | HostedItemBegun
    | HostedItemStep
    | HostedItemDone
    | ToolsFound
)
"""A chunk that becomes part of an item."""


class Layout(Protocol):
    """The items of one response, in the order in which they are emitted."""

    @property
    def live(self) -> OpenItem | None:
        """The open item that takes the next chunk, if there is one."""
        ...

    @property
    def output(self) -> Sequence[OutputItem]:
        """The finished items, in the order of the response."""
        ...

    def begin(self) -> None:
        """Called once, before the first chunk."""
        ...

    def take(self, chunk: ItemChunk) -> None:
        """Emit a chunk now, or when its item is next. Raises `BackendBroken` for a chunk without an item."""
        ...

    def finish(self, reason: FinishReason) -> None:
        """The model has finished: emit and close all open and pending items. Raises `BackendBroken`."""
        ...

    def close_round(self) -> None:
        """The model continues in another round: close the items that the layout can close."""
        ...

    def break_off(self) -> None:
        """The turn failed: close the items that the client has seen, drop the pending ones."""
        ...


def ran_to_its_end(reason: FinishReason) -> bool:
    """Whether the model ended its answer by itself."""
    return reason in ("stop", "tool_calls")


def arguments_without_call() -> BackendBroken:
    """The error for arguments of a call that has not begun."""
    return BackendBroken("The model's server sent arguments for a call that it did not begin.")


def arguments_after_call() -> BackendBroken:
    """The error for arguments of a call that has ended."""
    return BackendBroken("The model's server sent more arguments for a call that was complete.")
