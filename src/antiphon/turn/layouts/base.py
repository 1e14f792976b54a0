"""A layout decides in which order the items of a response are told. The machine numbers what it tells.

`OneAfterAnother` and `MessageFirst` are the two there are; a profile names the one to use.
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
    HostedItemDone,
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
    | HostedItemDone
    | ToolsFound
)
"""A chunk that becomes part of an item."""


class Layout(Protocol):
    """The items of one response, as they are told."""

    @property
    def live(self) -> OpenItem | None:
        """The item that takes text, if there is one."""
        ...

    @property
    def output(self) -> Sequence[OutputItem]:
        """The items that are whole, in the order of the response."""
        ...

    def begin(self) -> None:
        """Nothing was said yet."""
        ...

    def take(self, word: ItemChunk) -> None:
        """Tell it, now or when its turn comes. Raises `BackendBroken` for what makes no sense."""
        ...

    def finish(self, reason: FinishReason) -> None:
        """The model is done: everything still open or waiting is told and closed. Raises `BackendBroken`."""
        ...

    def settle(self) -> None:
        """The model will go on in another turn: what it has said so far is closed, as far as that is told."""
        ...

    def break_off(self) -> None:
        """Something broke: what the client has seen begin is closed, what waits was never begun."""
        ...


def ran_to_its_end(reason: FinishReason) -> bool:
    """Whether the model said all that it wanted to say."""
    return reason in ("stop", "tool_calls")


def arguments_without_call() -> BackendBroken:
    """The fault of arguments for a call that was not begun."""
    return BackendBroken("The model's server sent arguments for a call that it did not begin.")


def arguments_after_call() -> BackendBroken:
    """The fault of arguments for a call that has ended."""
    return BackendBroken("The model's server sent more arguments for a call that was whole.")
