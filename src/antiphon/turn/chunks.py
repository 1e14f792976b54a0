"""Chunks: the closed set of values that pass from a backend through the stages to the machine.

A backend splits compound deltas into these atoms. A batch is a non-empty sequence of chunks, usually those of
one network read; `HEARTBEAT` is the batch of a backend that is at work and has sent nothing.
"""

from typing import Literal

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.protocol.content import JsonObject, Logprob
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import HostedEvent
from antiphon.protocol.response import Usage
from antiphon.protocol.tool_items import ServerItem
from antiphon.protocol.tools import Tool
from antiphon.turn.provider_state import ProviderState

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]


class Heartbeat(Struct, frozen=True, gc=False):
    """The backend is at work and has sent nothing since. Always a batch of its own."""


class TurnStarted(Struct, frozen=True, gc=False):
    """The backend has begun to answer, but nothing of the answer can be shown yet."""


class ItemBegun(Struct, frozen=True, gc=False):
    """The next chunk belongs to another item, even if it is of the same kind as the one before. Optional:
    chunks of another kind always begin another item. `phase` is that of a message."""

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
    """A provider state of the reasoning so far, or of the next item: see `turn/provider_state.py`."""

    state: ProviderState


class CallStarted(Struct, frozen=True, gc=False):
    """A tool call begins. `index` identifies it among parallel calls; an empty `call_id` is filled in."""

    index: int
    call_id: str
    name: str


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of the arguments of the call at `index`: JSON, for every kind of tool."""

    index: int
    arguments: str


class CallFinished(Struct, frozen=True, gc=False):
    """The call at `index` is complete. Optional: the end of the turn completes all calls."""

    index: int


class AnnotationAdded(Struct, frozen=True):
    """A citation for the text so far. `covers`: how many characters at its end are the citation itself; an
    annotation of the web without a span gets theirs."""

    annotation: JsonObject
    covers: int = 0


class Compacted(Struct, frozen=True):
    """The conversation was summarised. `asked`: a trigger in the input requested it."""

    envelope: str
    usage: Usage | None = None
    asked: bool = False


class HostedItemBegun(Struct, frozen=True):
    """A hosted tool starts. `index` identifies the item in later chunks; `item` contains the known fields."""

    index: int
    item: ServerItem


class HostedItemStep(Struct, frozen=True):
    """A hosted tool has reached a step: the event that reports it, with its fields after the output index."""

    index: int
    event: type[HostedEvent]
    fields: tuple[str | int, ...] = ()


class HostedItemDone(Struct, frozen=True):
    """The finished item of a hosted tool. Without an `index` it is emitted in one piece.

    `private` is stored with the item and shown to the model in the next turn, never to the client.
    """

    item: ServerItem
    private: JsonObject | None = None
    index: int | None = None


class ToolsFound(Struct, frozen=True):
    """The server has searched for deferred tools: with these arguments of the model, and found these."""

    arguments: JsonObject
    tools: tuple[Tool, ...]


class DowngradesAdded(Struct, frozen=True):
    """Downgrades that the backend found while the model answered."""

    downgrades: tuple[Downgrade, ...]


class UsageSpent(Struct, frozen=True):
    """The usage of a round that another one follows; it is added to the usage of the turn."""

    usage: Usage


class UsageReported(Struct, frozen=True):
    """The usage of the turn; the last report counts."""

    usage: Usage


class Finished(Struct, frozen=True, gc=False):
    """The model has ended its turn."""

    reason: FinishReason


class StopSequenceFound(Struct, frozen=True, gc=False):
    """A stop sequence of the request has ended the answer; the rest of the turn is not read."""

    sequence: str


class Failed(Struct, frozen=True):
    """The turn ended with an error."""

    error: AntiphonError


Chunk = (
    Heartbeat
    | TurnStarted
    | ItemBegun
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
    | HostedItemBegun
    | HostedItemStep
    | HostedItemDone
    | ToolsFound
    | DowngradesAdded
    | UsageSpent
    | UsageReported
    | Finished
    | StopSequenceFound
    | Failed
)

HEARTBEAT: tuple[Chunk, ...] = (Heartbeat(),)
"""The batch of a backend that has sent nothing for a while."""
