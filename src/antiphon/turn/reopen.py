"""Reconstruct the open item from a log: the item that an earlier attempt began and did not end."""

from collections.abc import Sequence

from msgspec import UNSET

from antiphon.protocol.events import (
    CodeInterpreterCallCodeDelta,
    CodeInterpreterCallCodeDone,
    CustomToolCallInputDelta,
    Event,
    FunctionCallArgumentsDelta,
    HostedEvent,
    ImageGenerationCallPartialImage,
    McpCallArgumentsDelta,
    McpCallArgumentsDone,
    OutputItemAdded,
    OutputItemDone,
    OutputTextAnnotationAdded,
    OutputTextDelta,
    ReasoningSummaryTextDelta,
    ReasoningTextDelta,
    RefusalDelta,
    ShellCallOutputContentDelta,
    ShellCallOutputContentDone,
)
from antiphon.protocol.items import CustomToolCall, FunctionCall, Message, OutputItem, Reasoning
from antiphon.protocol.tool_items import HostedItem, ShellCall, ShellCallOutput, ToolSearchCall
from antiphon.protocol.tools import ShellTool, ToolSearchTool
from antiphon.turn.emitting import Emit
from antiphon.turn.hosted import Fields, OpenHosted
from antiphon.turn.items import OpenItem, OpenMessage, OpenReasoning
from antiphon.turn.open_calls.base import CallPlace
from antiphon.turn.open_calls.custom import OpenCustomCall
from antiphon.turn.open_calls.function import OpenFunctionCall
from antiphon.turn.open_calls.shell import OpenShellCall
from antiphon.turn.open_calls.unstreamed import OpenToolSearch
from antiphon.turn.provider_state import Seal
from antiphon.turn.tools import TurnTool


def reopen(earlier: Sequence[Event], emit: Emit, seal: Seal | None) -> OpenItem | None:
    """The item that these events leave open, in its last state. It emits its events again: drop them."""
    begun: list[Event] = []
    for event in earlier:
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
            return OpenMessage(emit, item_id, output_index, item.phase or None)
        case Reasoning():
            return OpenReasoning(emit, item_id, output_index, seal)
        case FunctionCall():
            return OpenFunctionCall(emit, CallPlace(item_id, item.call_id, output_index, -1), _named(item))
        case CustomToolCall():
            return OpenCustomCall(emit, CallPlace(item_id, item.call_id, output_index, -1), _named(item))
        case ShellCall():
            return OpenShellCall(emit, CallPlace(item_id, item.call_id, output_index, -1), _shell(item))
        case ToolSearchCall():
            place = CallPlace(item_id, item.call_id or "", output_index, -1)
            return OpenToolSearch(emit, place, _search(item))
        case _ if isinstance(item, HostedItem | ShellCallOutput):
            return OpenHosted(emit, item_id, output_index, item)
        case _:
            return None  # such an item is emitted in one piece, so no log ends within it


def _named(call: FunctionCall | CustomToolCall) -> TurnTool:
    namespace = call.namespace if isinstance(call.namespace, str) else None
    return TurnTool(name=call.name, origin=call.name, namespace=namespace)


def _shell(call: ShellCall) -> TurnTool:
    tool = ShellTool(environment=call.environment or UNSET)
    return TurnTool(name="shell", origin="shell", kind="shell", declared=tool)


def _search(call: ToolSearchCall) -> TurnTool:
    tool = ToolSearchTool(execution=call.execution)
    return TurnTool(name="tool_search", origin="tool_search", kind="tool_search", declared=tool)


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
        case OpenFunctionCall(), FunctionCallArgumentsDelta():
            opened.extend(event.delta)
        case OpenCustomCall(), CustomToolCallInputDelta():
            opened.resume(event.delta)
        case OpenHosted(), HostedEvent():
            opened.step(type(event), _fields_of(event))
        case _:
            pass  # the open item emits the ends of parts itself


def _fields_of(event: HostedEvent) -> Fields:
    """The fields of an event after the output index."""
    match event:
        case McpCallArgumentsDelta() | CodeInterpreterCallCodeDelta():
            return (event.delta,)
        case McpCallArgumentsDone():
            return (event.arguments,)
        case CodeInterpreterCallCodeDone():
            return (event.code,)
        case ShellCallOutputContentDelta():
            return (event.command_index, event.delta)
        case ShellCallOutputContentDone():
            return (event.command_index, event.output)
        case ImageGenerationCallPartialImage():
            return (event.partial_image_index, event.partial_image_b64)
        case _:
            return ()
