"""Events of the items that a server's own tools make (`hosted_items.py`): how far the work is."""

from antiphon.protocol.event_base import Event


class HostedEvent(Event, frozen=True):
    """Each names its item."""

    item_id: str
    output_index: int


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
    """The whole arguments of an MCP call."""

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
    """The whole code."""

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
    """An image is asked for."""


class ImageGenerationCallGenerating(
    HostedEvent, tag="response.image_generation_call.generating", frozen=True
):
    """The image is being made."""


class ImageGenerationCallCompleted(HostedEvent, tag="response.image_generation_call.completed", frozen=True):
    """The image is there."""
