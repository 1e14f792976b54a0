"""Chunks: the neutral alphabet in which every backend speaks. Small and closed.

Compound upstream deltas are split into these atoms before they reach the machine.
"""

from typing import Literal

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.protocol.content import JsonObject, Logprob
from antiphon.protocol.response import Usage

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]


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


class CallStarted(Struct, frozen=True, gc=False):
    """A tool call begins. `index` tells parallel calls apart; an empty `call_id` is filled in."""

    index: int
    call_id: str
    name: str


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of the arguments of the call at `index`."""

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
    TextDelta
    | RefusalDelta
    | ReasoningDelta
    | ReasoningSummaryDelta
    | CallStarted
    | CallDelta
    | CallFinished
    | AnnotationAdded
    | Compacted
    | UsageReported
    | Finished
    | Failed
)
