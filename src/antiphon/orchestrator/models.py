"""The values of the orchestrator: an agent's request and response, and the limits of a request.

In Python their fields are in snake case. On the wire they are read in any case and written in camel or
Pascal case (`antiphon.orchestrator.casing`). Parts of a request omit their defaults; parts of a response are
written completely.
"""

from typing import Literal

from msgspec import Struct

from antiphon.protocol.content import JsonObject

Kind = Literal["ok", "tool-only", "error", "empty"]


class EntityHeader(Struct, frozen=True, omit_defaults=True):
    """An object of the client: id and name."""

    id: str = ""
    text: str = ""


class ConversationContext(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The settings of a conversation: model, system prompt, temperature."""

    model_name: str = ""
    system: str = ""
    temperature: float | None = None
    id: str | None = None
    agent_context_id: str | None = None


class ActiveFile(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file that is open in the client's editor."""

    absolute_path: str = ""
    relative_path: str = ""
    file_name: str = ""
    sha256_hash: str = ""
    contents: str = ""
    language: str = ""


class ImageAttachment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An image that belongs to the instruction."""

    id: str = ""
    mime_type: str = ""
    data_base64: str = ""


class AgentToolCall(Struct, frozen=True, kw_only=True):
    """A call that the model made; the last four members are its result."""

    call_id: str
    name: str = ""
    """Empty: the result of a call was sent without the name."""
    arguments_json: str | None = None
    """Exactly as the model wrote it, valid JSON or not; None: no arguments."""
    is_server_tool: bool = False
    was_executed: bool = False
    result_json: str | None = None
    error_message: str | None = None


class HostedCallRecord(Struct, frozen=True, kw_only=True):
    """A call of a hosted tool, which the server of the model ran within a turn."""

    call_id: str
    type: str
    """The type of its item: `mcp_call`, `web_search_call`, …"""
    name: str = ""
    """The tool of an MCP server; else the type of the tool."""
    server_label: str | None = None
    """The MCP server."""
    arguments_json: str | None = None
    status: str | None = None
    output: str | None = None
    """What an MCP tool returned, or what code printed."""
    error_message: str | None = None


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """A call that is not run until a person has approved it."""

    id: str
    kind: Literal["agent", "mcp"]
    """`agent`: a server tool; `mcp`: a tool of an MCP server."""
    name: str
    arguments: str
    """The exact arguments of the call, as JSON text."""
    server_label: str | None = None


class ApprovalAnswer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A person's answer to an approval request."""

    id: str
    approve: bool
    reason: str | None = None
    """For the model, if the call is rejected."""


class AgentExecuteRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An instruction for the agent, or the tool results with which it continues."""

    mode: str | None = None
    instruction: str | None = None
    response_continuation_id: str | None = None
    tools_json: str | None = None
    tool_choice_name: str | None = None
    tool_results_json: str | None = None
    tool_results: tuple[AgentToolCall, ...] = ()
    approvals: tuple[ApprovalAnswer, ...] = ()
    system_prompt: str | None = None
    conversation_id: str | None = None
    agent_context: EntityHeader | None = None
    conversation_context: EntityHeader | None = None
    previous_turn_id: str | None = None
    current_turn_id: str | None = None
    workspace_id: str | None = None
    repo: str | None = None
    language: str | None = None
    rag_scope_filter: JsonObject | None = None
    active_files: tuple[ActiveFile, ...] = ()
    image_attachments: tuple[ImageAttachment, ...] = ()
    streaming: bool = False


class LlmUsage(Struct, frozen=True):
    """Tokens; 0 if the model did not report them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class SourceRef(Struct, frozen=True, kw_only=True):
    """A chunk that the model was shown, or what an annotation of its text cites."""

    tag: str = ""
    """The id of the chunk, as in the `[CONTEXT]` block; of a citation the id of the file, or the URL."""
    path: str = ""
    file_name: str = ""
    start: int = 0
    end: int = 0
    excerpt: str | None = None
    symbol: str | None = None
    symbol_type: str | None = None


class FileBundleItem(Struct, frozen=True, kw_only=True):
    """A change of one file."""

    action: Literal["create", "replace", "delete"]
    path: str
    contents: str | None = None


class FileBundle(Struct, frozen=True, kw_only=True):
    """The changes of files that the agent proposes. The client applies them; the server writes nothing."""

    root: str = "."
    files: tuple[FileBundleItem, ...] = ()


class AgentExecuteResponse(Struct, frozen=True, kw_only=True):
    """The response to a request."""

    kind: Kind
    conversation_id: str | None = None
    turn_id: str | None = None
    agent_context_id: str | None = None
    conversation_context_id: str | None = None
    response_continuation_id: str | None = None
    """Send it with the next request to continue from here."""
    mode: str | None = None
    model_id: str | None = None
    text: str | None = None
    finish_reason: str | None = None
    usage: LlmUsage = LlmUsage()
    sources: tuple[SourceRef, ...] = ()
    file_bundle: FileBundle | None = None
    warnings: tuple[str, ...] = ()
    error_code: str | None = None
    error_message: str | None = None
    raw_response_json: str | None = None
    tool_calls: tuple[AgentToolCall, ...] = ()
    hosted_calls: tuple[HostedCallRecord, ...] = ()
    """Calls of hosted tools, in order."""
    approvals: tuple[ApprovalRequest, ...] = ()
    """Calls that wait for a person."""


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of a request. Sizes are in characters, times in seconds."""

    max_turns: int = 8
    """Turns; a mode may override it."""
    max_output_tokens: int | None = None
    """Tokens of one turn; None: no limit."""
    tool_deadline: float = 60.0
    """For tools without a deadline of their own."""
    max_tool_output: int = 100_000
    """A longer output is cut."""
    max_context: int = 60_000
    """For the chunks of the `[CONTEXT]` block, and again for the `[ACTIVE FILES]` block."""
    chunks: int = 8
    """The maximum number of retrieved chunks."""
