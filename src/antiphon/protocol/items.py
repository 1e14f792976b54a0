"""Items: the stored unit. Items that a chat model can write or read are typed, others are opaque.

A field that may be absent on the wire is UNSET, not None, so that an item is encoded as it was received.
"""

from collections.abc import Iterable
from typing import Literal, TypeGuard, cast

from msgspec import UNSET, Struct, UnsetType

from antiphon.protocol.content import (
    InputFile,
    InputImage,
    InputText,
    JsonObject,
    MessagePart,
    ReasoningText,
    SummaryText,
)
from antiphon.protocol.tool_items import (
    AdditionalTools,
    ApplyPatchCall,
    ApplyPatchCallOutput,
    CodeInterpreterCall,
    ComputerCall,
    ComputerCallOutput,
    FileSearchCall,
    ImageGenerationCall,
    ItemStatus,
    LocalShellCall,
    LocalShellCallOutput,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    ShellCall,
    ShellCallOutput,
    ToolSearchCall,
    ToolSearchOutput,
    WebSearchCall,
)

Role = Literal["user", "assistant", "system", "developer"]
ToolOutput = str | list[InputText | InputImage | InputFile]


class Message(Struct, tag_field="type", tag="message", frozen=True, omit_defaults=True, kw_only=True):
    """A message. Messages of the model have an id, a status and a list of parts."""

    id: str | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET
    role: Role
    content: str | list[MessagePart]
    phase: str | UnsetType = UNSET


class FunctionCall(
    Struct, tag_field="type", tag="function_call", frozen=True, omit_defaults=True, kw_only=True
):
    """The model calls a function; `arguments` is JSON text exactly as the model wrote it."""

    id: str | UnsetType = UNSET
    call_id: str
    name: str
    arguments: str
    namespace: str | UnsetType = UNSET
    caller: JsonObject | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET


class FunctionCallOutput(
    Struct, tag_field="type", tag="function_call_output", frozen=True, omit_defaults=True, kw_only=True
):
    """The output of a function."""

    id: str | UnsetType = UNSET
    call_id: str
    output: ToolOutput
    status: ItemStatus | UnsetType = UNSET


class CustomToolCall(
    Struct, tag_field="type", tag="custom_tool_call", frozen=True, omit_defaults=True, kw_only=True
):
    """The model calls a custom tool; `input` is free text."""

    id: str | UnsetType = UNSET
    call_id: str
    name: str
    input: str
    namespace: str | UnsetType = UNSET
    caller: JsonObject | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET


class CustomToolCallOutput(
    Struct, tag_field="type", tag="custom_tool_call_output", frozen=True, omit_defaults=True, kw_only=True
):
    """The output of a custom tool."""

    id: str | UnsetType = UNSET
    call_id: str
    output: ToolOutput
    status: ItemStatus | UnsetType = UNSET


class Reasoning(Struct, tag_field="type", tag="reasoning", frozen=True, omit_defaults=True, kw_only=True):
    """Reasoning of the model: a summary, the raw text, or a sealed envelope that only Antiphon can open."""

    id: str | UnsetType = UNSET
    summary: list[SummaryText]
    content: list[ReasoningText] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET


class Compaction(Struct, tag_field="type", tag="compaction", frozen=True, omit_defaults=True, kw_only=True):
    """A sealed summary of all items before it. Of these the model sees the caller's messages only."""

    id: str | UnsetType = UNSET
    encrypted_content: str
    status: ItemStatus | UnsetType = UNSET


class CompactionTrigger(
    Struct, tag_field="type", tag="compaction_trigger", frozen=True, omit_defaults=True, kw_only=True
):
    """Requests a `Compaction` of all items before it, and no answer. Always the last item."""

    id: str | UnsetType = UNSET


class ItemReference(Struct, tag_field="type", tag="item_reference", frozen=True):
    """A reference to a stored item."""

    id: str


class OpaqueItem(Struct, frozen=True):
    """An item of the protocol that no chat model can read; `body` is the complete item as received."""

    type: str
    body: JsonObject


ClientCall = ToolSearchCall | ApplyPatchCall | ShellCall | LocalShellCall | ComputerCall
"""Calls that the client answers, besides those of functions and custom tools."""
ClientOutput = (
    ToolSearchOutput | ApplyPatchCallOutput | ShellCallOutput | LocalShellCallOutput | ComputerCallOutput
)
TypedItem = (
    Message
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | Reasoning
    | Compaction
    | CompactionTrigger
    | ItemReference
    | AdditionalTools
    | ToolSearchCall
    | ApplyPatchCall
    | ShellCall
    | LocalShellCall
    | ComputerCall
    | ToolSearchOutput
    | ApplyPatchCallOutput
    | ShellCallOutput
    | LocalShellCallOutput
    | ComputerCallOutput
    | WebSearchCall
    | FileSearchCall
    | CodeInterpreterCall
    | ImageGenerationCall
    | McpListTools
    | McpCall
    | McpApprovalRequest
    | McpApprovalResponse
)
Item = TypedItem | OpaqueItem
OutputItem = (
    Message
    | FunctionCall
    | CustomToolCall
    | Reasoning
    | Compaction
    | ToolSearchCall
    | ToolSearchOutput
    | ApplyPatchCall
    | ShellCall
    | ShellCallOutput
    | LocalShellCall
    | ComputerCall
    | WebSearchCall
    | FileSearchCall
    | CodeInterpreterCall
    | ImageGenerationCall
    | McpListTools
    | McpCall
    | McpApprovalRequest
)

ITEM_TYPES: dict[str, type[TypedItem]] = {
    str(kind.__struct_config__.tag): kind for kind in TypedItem.__args__
}

HOSTED_ITEMS = (
    WebSearchCall,
    FileSearchCall,
    CodeInterpreterCall,
    ImageGenerationCall,
    McpListTools,
    McpApprovalRequest,
)
"""Items of hosted tools that have finished. The message after them contains the result."""

OPAQUE_ITEMS = frozenset({"configuration_update", "program", "program_output"})
"""Items of the protocol that no model here can read. They are not omitted: the answer depends on them."""

KNOWN_ITEMS = ITEM_TYPES.keys() | OPAQUE_ITEMS


CallItem = FunctionCall | CustomToolCall | ClientCall
OutputOfCall = FunctionCallOutput | CustomToolCallOutput | ClientOutput

ANSWERED_BY: dict[type[Struct], type[Struct]] = {
    FunctionCall: FunctionCallOutput,
    CustomToolCall: CustomToolCallOutput,
    ToolSearchCall: ToolSearchOutput,
    ApplyPatchCall: ApplyPatchCallOutput,
    ShellCall: ShellCallOutput,
    LocalShellCall: LocalShellCallOutput,
    ComputerCall: ComputerCallOutput,
}
"""The type of output for each type of call."""

_CALLS = frozenset(ANSWERED_BY)
_OUTPUTS = frozenset(ANSWERED_BY.values())


def is_call(item: Item) -> TypeGuard[CallItem]:
    return type(item) in _CALLS


def is_output(item: Item) -> TypeGuard[OutputOfCall]:
    return type(item) in _OUTPUTS


def calls_in(items: Iterable[Item]) -> list[CallItem]:
    """The calls among the items. There may be thousands, so this is one loop without a function call."""
    return cast("list[CallItem]", [item for item in items if type(item) in _CALLS])


def outputs_in(items: Iterable[Item]) -> list[OutputOfCall]:
    """The outputs of calls among the items."""
    return cast("list[OutputOfCall]", [item for item in items if type(item) in _OUTPUTS])


def call_id_of(item: CallItem | OutputOfCall) -> str | None:
    """The id that a call and its output share; None if the server ran the tool itself."""
    return None if isinstance(item.call_id, UnsetType) else item.call_id


def is_for_client(item: Item) -> bool:
    """Whether the client must run the call, or decide about it."""
    if isinstance(item, ShellCall) and in_container(item):
        return False
    return isinstance(item, McpApprovalRequest) or (is_call(item) and call_id_of(item) is not None)


def in_container(call: ShellCall) -> bool:
    """Whether a server has run the commands."""
    return isinstance(call.environment, dict) and call.environment.get("type") == "container_reference"
