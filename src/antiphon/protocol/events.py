"""Events of a stream, one class per wire type. Only the machine numbers them.

`EVENT_TYPES` maps a wire type to its class, for readers of streams.
"""

from typing import Any

from msgspec import Struct, field

from antiphon.protocol.content import JsonObject, Logprob, OutputText, ReasoningText, Refusal, SummaryText
from antiphon.protocol.items import OutputItem
from antiphon.protocol.response import Response


class Event(Struct, tag_field="type", frozen=True, gc=False):
    sequence_number: int


class ResponseCreated(Event, tag="response.created", frozen=True):
    """The response exists."""

    response: Response


class ResponseQueued(Event, tag="response.queued", frozen=True):
    """The response waits for its turn."""

    response: Response


class ResponseInProgress(Event, tag="response.in_progress", frozen=True):
    """The model is at work."""

    response: Response


class ResponseCompleted(Event, tag="response.completed", frozen=True):
    """Terminal: the answer is complete."""

    response: Response


class ResponseIncomplete(Event, tag="response.incomplete", frozen=True):
    """Terminal: the answer stopped early; the response contains the reason."""

    response: Response


class ResponseFailed(Event, tag="response.failed", frozen=True):
    """Terminal: the response failed; it contains the error."""

    response: Response


class OutputItemAdded(Event, tag="response.output_item.added", frozen=True):
    """An item begins."""

    output_index: int
    item: OutputItem


class OutputItemDone(Event, tag="response.output_item.done", frozen=True):
    """An item is complete."""

    output_index: int
    item: OutputItem


class ContentPartAdded(Event, tag="response.content_part.added", frozen=True):
    """A part of an item's content begins."""

    item_id: str
    output_index: int
    content_index: int
    part: OutputText | Refusal | ReasoningText


class ContentPartDone(Event, tag="response.content_part.done", frozen=True):
    """A part of an item's content is complete."""

    item_id: str
    output_index: int
    content_index: int
    part: OutputText | Refusal | ReasoningText


class OutputTextDelta(Event, tag="response.output_text.delta", frozen=True):
    """A piece of the answer."""

    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: list[Logprob] = field(default_factory=list)


class OutputTextDone(Event, tag="response.output_text.done", frozen=True):
    """The complete text of a part."""

    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: list[Logprob] = field(default_factory=list)


class OutputTextAnnotationAdded(Event, tag="response.output_text.annotation.added", frozen=True):
    """A citation for the preceding text."""

    item_id: str
    output_index: int
    content_index: int
    annotation_index: int
    annotation: dict[str, Any]


class RefusalDelta(Event, tag="response.refusal.delta", frozen=True):
    """A piece of a refusal."""

    item_id: str
    output_index: int
    content_index: int
    delta: str


class RefusalDone(Event, tag="response.refusal.done", frozen=True):
    """The complete refusal."""

    item_id: str
    output_index: int
    content_index: int
    refusal: str


class ReasoningTextDelta(Event, tag="response.reasoning_text.delta", frozen=True):
    """A piece of raw reasoning."""

    item_id: str
    output_index: int
    content_index: int
    delta: str


class ReasoningTextDone(Event, tag="response.reasoning_text.done", frozen=True):
    """The complete raw reasoning."""

    item_id: str
    output_index: int
    content_index: int
    text: str


class ReasoningSummaryPartAdded(Event, tag="response.reasoning_summary_part.added", frozen=True):
    """A part of a summary begins."""

    item_id: str
    output_index: int
    summary_index: int
    part: SummaryText


class ReasoningSummaryPartDone(Event, tag="response.reasoning_summary_part.done", frozen=True):
    """A part of a summary is complete."""

    item_id: str
    output_index: int
    summary_index: int
    part: SummaryText


class ReasoningSummaryTextDelta(Event, tag="response.reasoning_summary_text.delta", frozen=True):
    """A piece of a summary."""

    item_id: str
    output_index: int
    summary_index: int
    delta: str


class ReasoningSummaryTextDone(Event, tag="response.reasoning_summary_text.done", frozen=True):
    """The complete text of a summary part."""

    item_id: str
    output_index: int
    summary_index: int
    text: str


class FunctionCallArgumentsDelta(Event, tag="response.function_call_arguments.delta", frozen=True):
    """A piece of a call's arguments."""

    item_id: str
    output_index: int
    delta: str


class FunctionCallArgumentsDone(Event, tag="response.function_call_arguments.done", frozen=True):
    """The complete arguments of a call."""

    item_id: str
    output_index: int
    arguments: str


class CustomToolCallInputDelta(Event, tag="response.custom_tool_call_input.delta", frozen=True):
    """A piece of a custom call's input."""

    item_id: str
    output_index: int
    delta: str


class CustomToolCallInputDone(Event, tag="response.custom_tool_call_input.done", frozen=True):
    """The complete input of a custom call."""

    item_id: str
    output_index: int
    input: str


class ShellCallCommandAdded(Event, tag="response.shell_call_command.added", frozen=True):
    """A command of a shell call begins; the events of commands contain no item id."""

    output_index: int
    command_index: int
    command: str


class ShellCallCommandDelta(Event, tag="response.shell_call_command.delta", frozen=True):
    """A piece of a command."""

    output_index: int
    command_index: int
    delta: str


class ShellCallCommandDone(Event, tag="response.shell_call_command.done", frozen=True):
    """A command is complete."""

    output_index: int
    command_index: int
    command: str


class ApplyPatchCallOperationDiffDelta(
    Event, tag="response.apply_patch_call_operation_diff.delta", frozen=True
):
    """A piece of a patch."""

    item_id: str
    output_index: int
    delta: str


class ApplyPatchCallOperationDiffDone(
    Event, tag="response.apply_patch_call_operation_diff.done", frozen=True
):
    """The complete patch."""

    item_id: str
    output_index: int
    diff: str


class CompactionCompacting(Event, tag="response.compaction.compacting", frozen=True):
    """The compaction that a trigger requested is being written; its text stays sealed."""

    item_id: str
    output_index: int


class ErrorBody(Struct, frozen=True):
    """OpenAI's error object."""

    type: str
    code: str | None
    message: str
    param: str | None


class ErrorEvent(Event, tag="error", frozen=True):
    """An error within a stream; `response.failed` follows. The error object is nested, as OpenAI sends it."""

    error: ErrorBody


class Keepalive(Event, tag="keepalive", frozen=True):
    """The backend is at work and has sent nothing."""


class HostedEvent(Event, frozen=True):
    """An event of a hosted tool's item."""

    item_id: str
    output_index: int


class ShellCallOutputContentDelta(HostedEvent, tag="response.shell_call_output_content.delta", frozen=True):
    """What a command of a shell in a container has printed."""

    command_index: int
    delta: JsonObject


class ShellCallOutputContentDone(HostedEvent, tag="response.shell_call_output_content.done", frozen=True):
    """A command of a shell in a container has ended."""

    command_index: int
    output: list[JsonObject]


class WebSearchCallInProgress(HostedEvent, tag="response.web_search_call.in_progress", frozen=True):
    """A search of the web begins."""


class WebSearchCallSearching(HostedEvent, tag="response.web_search_call.searching", frozen=True):
    """The web is being searched."""


class WebSearchCallCompleted(HostedEvent, tag="response.web_search_call.completed", frozen=True):
    """The search has ended."""


class FileSearchCallInProgress(HostedEvent, tag="response.file_search_call.in_progress", frozen=True):
    """A search in files begins."""


class FileSearchCallSearching(HostedEvent, tag="response.file_search_call.searching", frozen=True):
    """Files are being searched."""


class FileSearchCallCompleted(HostedEvent, tag="response.file_search_call.completed", frozen=True):
    """The search in files has ended."""


class McpListToolsInProgress(HostedEvent, tag="response.mcp_list_tools.in_progress", frozen=True):
    """An MCP server is asked for its tools."""


class McpListToolsCompleted(HostedEvent, tag="response.mcp_list_tools.completed", frozen=True):
    """The listing has ended."""


class McpListToolsFailed(HostedEvent, tag="response.mcp_list_tools.failed", frozen=True):
    """The listing has failed."""


class McpCallInProgress(HostedEvent, tag="response.mcp_call.in_progress", frozen=True):
    """A call of an MCP tool begins."""


class McpCallArgumentsDelta(HostedEvent, tag="response.mcp_call_arguments.delta", frozen=True):
    """A piece of the arguments of an MCP call."""

    delta: str


class McpCallArgumentsDone(HostedEvent, tag="response.mcp_call_arguments.done", frozen=True):
    """The complete arguments of an MCP call."""

    arguments: str


class McpCallCompleted(HostedEvent, tag="response.mcp_call.completed", frozen=True):
    """The MCP tool has answered."""


class McpCallFailed(HostedEvent, tag="response.mcp_call.failed", frozen=True):
    """The MCP tool could not be called, or has failed."""


class CodeInterpreterCallInProgress(
    HostedEvent, tag="response.code_interpreter_call.in_progress", frozen=True
):
    """The model begins to write code."""


class CodeInterpreterCallCodeDelta(HostedEvent, tag="response.code_interpreter_call_code.delta", frozen=True):
    """A piece of the code."""

    delta: str


class CodeInterpreterCallCodeDone(HostedEvent, tag="response.code_interpreter_call_code.done", frozen=True):
    """The complete code."""

    code: str


class CodeInterpreterCallInterpreting(
    HostedEvent, tag="response.code_interpreter_call.interpreting", frozen=True
):
    """The code is being run."""


class CodeInterpreterCallCompleted(HostedEvent, tag="response.code_interpreter_call.completed", frozen=True):
    """The code was run."""


class ImageGenerationCallInProgress(
    HostedEvent, tag="response.image_generation_call.in_progress", frozen=True
):
    """The generation of an image begins."""


class ImageGenerationCallGenerating(
    HostedEvent, tag="response.image_generation_call.generating", frozen=True
):
    """The image is being made."""


class ImageGenerationCallPartialImage(
    HostedEvent, tag="response.image_generation_call.partial_image", frozen=True
):
    """An unfinished form of the image, in base64."""

    partial_image_index: int
    partial_image_b64: str


class ImageGenerationCallCompleted(HostedEvent, tag="response.image_generation_call.completed", frozen=True):
    """The image is complete."""


EVENT_TYPES: dict[str, type[Event]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (*Event.__subclasses__(), *HostedEvent.__subclasses__())
    if kind is not HostedEvent
}
TERMINAL_TYPES = frozenset(
    str(kind.__struct_config__.tag) for kind in (ResponseCompleted, ResponseIncomplete, ResponseFailed)
)
"""The types of the events that end a stream."""
