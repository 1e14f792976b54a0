"""`CreateResponse`: every parameter of ``POST /v1/responses``, typed and bounded.

Unknown fields are reported (`unknown_params.py`). Aliases and cross-field rules are in `parse_create.py`.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.protocol.content import JsonObject, Metadata
from antiphon.protocol.definitions import Definition
from antiphon.protocol.items import Item
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.protocol.tools import Tool, ToolChoice

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]
Truncation = Literal["auto", "disabled"]
ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]
Includable = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]
Id = Annotated[str, Meta(max_length=256)]
Label = Annotated[str, Meta(max_length=1024)]


class ReasoningOptions(Struct, frozen=True):
    """Options of reasoning. Responses always contain `context`, `effort` and `summary`."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | UnsetType | None = UNSET
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: Literal["standard", "pro"] | UnsetType | None = UNSET


class TextFormat(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The format of the answer's text."""

    type: Literal["text", "json_object", "json_schema"]
    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    schema: JsonObject | UnsetType = UNSET
    strict: bool | UnsetType | None = UNSET

    @property
    def is_strict(self) -> bool:
        """Whether an answer that violates the schema must not be given."""
        return self.type == "json_schema" and self.strict is True


class TextOptions(Struct, frozen=True, omit_defaults=True):
    """Format and verbosity of the answer's text."""

    format: TextFormat | None = None
    verbosity: Verbosity | None = None


class StreamOptions(Struct, frozen=True, omit_defaults=True):
    """Options of a stream."""

    include_obfuscation: bool | None = None
    include_usage: bool | None = None


class ConversationRef(Struct, frozen=True):
    """A conversation, by its id."""

    id: Id


class ContextManagement(Struct, frozen=True):
    """Compacts the context when it reaches `compact_threshold` tokens."""

    type: Literal["compaction"]
    compact_threshold: Annotated[int, Meta(ge=1)]


class CreateBody(Struct, frozen=True, kw_only=True):
    """The parameters with one form on the wire. Their types decode and bound them."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    access_programs: JsonObject | None = None
    background: bool | None = None
    context_management: Annotated[list[ContextManagement], Meta(max_length=16)] | None = None
    conversation: Id | ConversationRef | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    image: JsonObject | None = None
    include: Annotated[list[Includable], Meta(max_length=32)] | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_tool_calls: Annotated[int, Meta(ge=1)] | None = None
    metadata: Metadata | None = None
    moderation: JsonObject | None = None
    parallel_tool_calls: bool | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    previous_response_id: Id | None = None
    prompt: JsonObject | None = None
    prompt_cache_key: Label | None = None
    prompt_cache_options: JsonObject | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    reasoning: ReasoningOptions | None = None
    safety_identifier: Annotated[str, Meta(max_length=128)] | None = None
    service_tier: ServiceTier | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    text: TextOptions | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    truncation: Truncation | None = None
    user: Label | None = None


class _ForeignParams(CreateBody, frozen=True, kw_only=True):
    """Parameters of other APIs. They have no effect, and a downgrade reports them: see `FOREIGN_PARAMS`."""

    function_call: Any = None
    functions: Any = None
    logit_bias: Any = None
    logprobs: Any = None
    max_completion_tokens: Any = None
    max_tokens: Any = None
    mcp_servers: Any = None
    n: Any = None
    """Some profiles check it."""
    output_config: Any = None
    reasoning_effort: Any = None
    response_format: Any = None
    seed: Any = None
    stop: Any = None
    stop_sequences: Any = None
    system: Any = None
    thinking: Any = None
    top_k: Any = None
    verbosity: Any = None


FOREIGN_PARAMS = tuple(sorted({*_ForeignParams.__struct_fields__} - {*CreateBody.__struct_fields__}))
"""Parameters that belong to other APIs."""


class RawCreate(_ForeignParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body as received: parameters with several forms are still plain JSON. Others are unknown."""

    input: str | list[Any] | None = None
    messages: Any = None
    """Belongs to other APIs: the error names the parameter that replaces it."""
    tools: list[Any] | None = None
    tool_choice: str | JsonObject | None = None

    client_metadata: Any = None
    """Codex sends it, for the logs of its own server. It has no effect here."""
    stream_id: Any = None
    type: Any = None
    """These two are members of the frames of a WebSocket (`frames.py`)."""


class UnknownParams(Struct, frozen=True):
    """The first few unknown members of a request, shortened, and how many more there are."""

    names: tuple[str, ...] = ()
    more: int = 0


NONE_UNKNOWN = UnknownParams()


class Thinking(Struct, frozen=True):
    """Requested thinking, as other APIs express it. `budget` is a number of tokens; with None the model
    decides. The request also contains an effort that corresponds to the budget."""

    budget: int | None = None


class CreateResponse(Struct, frozen=True, kw_only=True):
    """A validated request. The types validate `params`; the parser validates items, tools and choice. The
    profile determines how it is read and answered."""

    params: CreateBody
    items: tuple[Item, ...]
    tools: tuple[Tool, ...]
    tool_choice: ToolChoice
    profile: Profile = OPENAI
    unused: tuple[str, ...] = ()
    """The given parameters that the profile ignores."""
    foreign_params: tuple[str, ...] = ()
    """The given parameters of other APIs. They have no effect."""
    unknown: UnknownParams = NONE_UNKNOWN
    """The given members that no API here has. They have no effect."""
    thinking: Thinking | None = None
    """Set by compatible endpoints only; not a parameter of the Responses API."""
    stop: tuple[str, ...] = ()
    """Stop sequences, set by compatible endpoints only."""
    unchecked: tuple[Definition, ...] = ()
    """Schemas and grammars that are too expensive to be checked while a request is parsed."""
    input_bytes: int = 0
    """The size of the body, and of a long history; 0 if it did not come in a body."""

    @property
    def continues(self) -> bool:
        """Whether it refers to a history."""
        return self.params.previous_response_id is not None or self.params.conversation is not None

    @property
    def stored(self) -> bool:
        """Whether the response is stored, which is the default."""
        return self.params.store is not False

    @property
    def streamed(self) -> bool:
        """Whether the caller asked for events."""
        return self.params.stream is True

    @property
    def conversation_id(self) -> str | None:
        """The id of the response's conversation."""
        given = self.params.conversation
        return given.id if isinstance(given, ConversationRef) else given
