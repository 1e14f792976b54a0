"""Items: the stored unit. Typed where a chat-shaped model can produce or read them, opaque otherwise.

A field that may be absent on the wire is UNSET, not None, so that what came in goes out the same.
"""

from typing import Literal

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

Role = Literal["user", "assistant", "system", "developer"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]
ToolOutput = str | list[InputText | InputImage | InputFile]


class Message(Struct, tag_field="type", tag="message", frozen=True, omit_defaults=True, kw_only=True):
    """What somebody said. The model's own messages have an id, a status and a list of parts."""

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
    """What the function answered."""

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
    """What the custom tool answered."""

    id: str | UnsetType = UNSET
    call_id: str
    output: ToolOutput
    status: ItemStatus | UnsetType = UNSET


class Reasoning(Struct, tag_field="type", tag="reasoning", frozen=True, omit_defaults=True, kw_only=True):
    """What the model thought: a summary, the raw text, or a sealed envelope that only we can open."""

    id: str | UnsetType = UNSET
    summary: list[SummaryText]
    content: list[ReasoningText] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET


class Compaction(Struct, tag_field="type", tag="compaction", frozen=True, omit_defaults=True, kw_only=True):
    """A sealed summary of everything before it; of that only the caller's own messages are still shown."""

    id: str | UnsetType = UNSET
    encrypted_content: str
    status: ItemStatus | UnsetType = UNSET


class CompactionTrigger(
    Struct, tag_field="type", tag="compaction_trigger", frozen=True, omit_defaults=True, kw_only=True
):
    """Asks for a `Compaction` of everything before it, and for nothing else. Always the last item."""

    id: str | UnsetType = UNSET


class ItemReference(Struct, tag_field="type", tag="item_reference", frozen=True):
    """Stands for a stored item."""

    id: str


class OpaqueItem(Struct, frozen=True):
    """An item of the protocol that no chat-shaped model can read; `body` is the whole item as it came."""

    type: str
    body: JsonObject


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
)
Item = TypedItem | OpaqueItem
OutputItem = Message | FunctionCall | CustomToolCall | Reasoning | Compaction

TYPED_ITEMS = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
        "compaction",
        "compaction_trigger",
        "item_reference",
    }
)

RECEIPT_ITEMS = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "tool_search_call",
    }
)
"""Records of finished hosted work: the message that follows them already says what came of it."""

BEARING_ITEMS = frozenset(
    {
        "additional_tools",
        "apply_patch_call",
        "apply_patch_call_output",
        "computer_call",
        "computer_call_output",
        "configuration_update",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_response",
        "mcp_call",
        "program",
        "program_output",
        "shell_call",
        "shell_call_output",
        "tool_search_output",
    }
)
"""Items that carry something the model has to know; leaving one out would change the answer."""

KNOWN_ITEMS = TYPED_ITEMS | RECEIPT_ITEMS | BEARING_ITEMS
