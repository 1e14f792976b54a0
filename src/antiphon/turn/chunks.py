"""Chunks: the neutral alphabet in which every backend speaks. Small and closed.

Compound upstream deltas are split into these atoms before they reach the machine.
"""

from typing import Literal

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.protocol.content import JsonObject, Logprob
from antiphon.protocol.hosted_items import HostedItem
from antiphon.protocol.response import Usage
from antiphon.protocol.tools import Tool
from antiphon.turn.provider_state import ProviderState

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]


class ItemBegun(Struct, frozen=True, gc=False):
    """What follows is another item than what came before, even if it is of the same kind. Optional: words of
    another kind are always another item. `phase` is that of a message."""

    phase: str | None = None


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of the answer's text."""

    text: str
    logprobs: tuple[Logprob, ...] = ()


class RefusalDelta(Struct, frozen=True, gc=False):
    """A piece of a refusal."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of raw reasoning."""

    text: str


class ReasoningSummaryDelta(Struct, frozen=True, gc=False):
    """A piece of a reasoning summary; another `part` begins another summary part."""

    text: str
    part: int = 0


class ProviderStateAdded(Struct, frozen=True):
    """A mark of the reasoning so far, or of what comes next: see `turn/provider_state.py`."""

    mark: ProviderState


class CallStarted(Struct, frozen=True, gc=False):
    """A tool call begins. `index` tells parallel calls apart; an empty `call_id` is filled in."""

    index: int
    call_id: str
    name: str


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of the arguments of the call at `index`: JSON, whatever the tool's kind."""

    index: int
    arguments: str


class CallFinished(Struct, frozen=True, gc=False):
    """The call at `index` is whole. Optional: the end of the turn finishes all calls."""

    index: int


class AnnotationAdded(Struct, frozen=True):
    """A citation for the text so far."""

    annotation: JsonObject


class Compacted(Struct, frozen=True):
    """The conversation so far was summarised, at a cost. `asked`: a trigger in the input wanted it."""

    envelope: str
    usage: Usage | None = None
    asked: bool = False


class HostedItemDone(Struct, frozen=True):
    """The backend has used a tool of its own; this is the finished item."""

    item: HostedItem


class ToolsFound(Struct, frozen=True):
    """The server has searched for deferred tools: with these arguments of the model, and found these."""

    arguments: JsonObject
    tools: tuple[Tool, ...]


class UsageSpent(Struct, frozen=True):
    """What an attempt cost that came to nothing; it is added to the rest."""

    usage: Usage


class UsageReported(Struct, frozen=True):
    """What the turn cost; the last report counts."""

    usage: Usage


class Finished(Struct, frozen=True, gc=False):
    """The model has said all it will say in this turn."""

    reason: FinishReason


class Failed(Struct, frozen=True):
    """The turn broke."""

    error: AntiphonError


Chunk = (
    ItemBegun
    | TextDelta
    | RefusalDelta
    | ReasoningDelta
    | ReasoningSummaryDelta
    | ProviderStateAdded
    | CallStarted
    | CallDelta
    | CallFinished
    | AnnotationAdded
    | Compacted
    | HostedItemDone
    | ToolsFound
    | UsageSpent
    | UsageReported
    | Finished
    | Failed
)
