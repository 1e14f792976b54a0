"""The values of the orchestrator: what an agent's client sends, and what it gets back.

In Python their fields are in snake case. On the wire they are read in any case and written in camel or
Pascal case (`antiphon.orchestrator.casing`). What is part of a request leaves its defaults out; what is part
of a response is written whole.
"""

from typing import Literal

from msgspec import Struct

from antiphon.protocol.content import JsonObject

Kind = Literal["ok", "tool-only", "error", "empty"]


class EntityHeader(Struct, frozen=True, omit_defaults=True):
    """A thing of the client's, by id and by what it is called."""

    id: str = ""
    text: str = ""


class ConversationContext(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What holds for a whole conversation: the model, and how it is told to behave."""

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
    """A picture that belongs to the instruction."""

    id: str = ""
    mime_type: str = ""
    data_base64: str = ""


class AgentToolCall(Struct, frozen=True, kw_only=True):
    """A call that the model made; with the last four members, also what became of it."""

    call_id: str
    name: str = ""
    """Empty: whoever sends the result of a call did not repeat its name."""
    arguments_json: str | None = None
    """Exactly as the model wrote it, valid JSON or not; None: it wrote nothing."""
    is_server_tool: bool = False
    was_executed: bool = False
    result_json: str | None = None
    error_message: str | None = None


class AgentExecuteRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One thing that an agent shall do, or the tool results with which it shall go on."""

    mode: str | None = None
    instruction: str | None = None
    response_continuation_id: str | None = None
    tools_json: str | None = None
    tool_choice_name: str | None = None
    tool_results_json: str | None = None
    tool_results: tuple[AgentToolCall, ...] = ()
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
    """Tokens. What the model did not report is 0."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class SourceRef(Struct, frozen=True, kw_only=True):
    """A chunk that the model was shown."""

    tag: str = ""
    """The id of the chunk, as it stands in the `[CONTEXT]` block."""
    path: str = ""
    file_name: str = ""
    start: int = 0
    end: int = 0
    excerpt: str | None = None
    symbol: str | None = None
    symbol_type: str | None = None


class FileBundleItem(Struct, frozen=True, kw_only=True):
    """What shall become of one file."""

    action: Literal["create", "replace", "delete"]
    path: str
    contents: str | None = None


class FileBundle(Struct, frozen=True, kw_only=True):
    """Files that the agent wants to change. The client applies them; nothing is written on the server."""

    root: str = "."
    files: tuple[FileBundleItem, ...] = ()


class AgentExecuteResponse(Struct, frozen=True, kw_only=True):
    """What became of a request."""

    kind: Kind
    conversation_id: str | None = None
    turn_id: str | None = None
    agent_context_id: str | None = None
    conversation_context_id: str | None = None
    response_continuation_id: str | None = None
    """Send it back in the next request to go on from here."""
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
