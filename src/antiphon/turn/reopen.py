"""Open items from a log: what an earlier attempt had begun to say and did not end."""

from collections.abc import Sequence

from antiphon.protocol.events import (
    Event,
    FunctionCallArgumentsDelta,
    OutputItemAdded,
    OutputItemDone,
    OutputTextAnnotationAdded,
    OutputTextDelta,
    ReasoningSummaryTextDelta,
    ReasoningTextDelta,
    RefusalDelta,
)
from antiphon.protocol.items import CustomToolCall, FunctionCall, Message, OutputItem, Reasoning
from antiphon.turn.context import TurnTool
from antiphon.turn.items import Emit, OpenCall, OpenItem, OpenMessage, OpenReasoning, Seal


def reopen(said: Sequence[Event], emit: Emit, seal: Seal | None) -> OpenItem | None:
    """The item that these events leave open, as it stands. Its events are emitted anew: drop them."""
    begun: list[Event] = []
    for event in said:
        if isinstance(event, OutputItemAdded):
            begun = [event]
        elif isinstance(event, OutputItemDone):
            begun = []
        elif begun:
            begun.append(event)
    if not begun or not isinstance(begun[0], OutputItemAdded):
        return None
    opened = _begin(begun[0].item, begun[0].output_index, emit, seal)
    for event in begun[1:]:
        _extend(opened, event)
    return opened


def _begin(item: OutputItem, output_index: int, emit: Emit, seal: Seal | None) -> OpenItem | None:
    item_id = item.id if isinstance(item.id, str) else ""
    match item:
        case Message():
            return OpenMessage(emit, item_id, output_index)
        case Reasoning():
            return OpenReasoning(emit, item_id, output_index, seal)
        case FunctionCall() | CustomToolCall():
            return OpenCall(emit, (item_id, item.call_id), output_index, -1, _tool(item))
        case _:
            return None  # it is said in one piece, so it is never half said


def _tool(call: FunctionCall | CustomToolCall) -> TurnTool:
    namespace = call.namespace if isinstance(call.namespace, str) else None
    kind = "custom" if isinstance(call, CustomToolCall) else "function"
    return TurnTool(name=call.name, origin=call.name, namespace=namespace, kind=kind)


def _extend(opened: OpenItem | None, event: Event) -> None:
    match opened, event:
        case OpenMessage(), OutputTextDelta():
            opened.text(event.delta, tuple(event.logprobs))
        case OpenMessage(), RefusalDelta():
            opened.refusal(event.delta)
        case OpenMessage(), OutputTextAnnotationAdded():
            opened.annotate(event.annotation)
        case OpenReasoning(), ReasoningTextDelta():
            opened.raw(event.delta)
        case OpenReasoning(), ReasoningSummaryTextDelta():
            opened.summarise(event.delta, event.summary_index)
        case OpenCall(), FunctionCallArgumentsDelta():
            opened.extend(event.delta)
        case _:
            pass  # the ends of parts follow from the beginnings of the next ones
