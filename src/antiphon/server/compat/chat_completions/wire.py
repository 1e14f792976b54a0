"""The body of ``POST /v1/chat/completions``, typed and bounded."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from antiphon.protocol.content import JsonObject, Metadata
from antiphon.protocol.requests import Effort, ReasoningOptions, ServiceTier, Verbosity

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class TextPart(Struct, tag_field="type", tag="text", frozen=True):
    """Text."""

    text: str


class RefusalPart(Struct, tag_field="type", tag="refusal", frozen=True):
    """Why the model would not answer."""

    refusal: str


class ImageUrl(Struct, frozen=True):
    """Where an image is."""

    url: str
    detail: Literal["low", "high", "auto"] | None = None


class ImagePart(Struct, tag_field="type", tag="image_url", frozen=True):
    """An image."""

    image_url: ImageUrl


class AudioPart(Struct, tag_field="type", tag="input_audio", frozen=True):
    """Sound: `data` and `format`."""

    input_audio: JsonObject


class ChatFile(Struct, frozen=True):
    """A file: its content, or its id."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(Struct, tag_field="type", tag="file", frozen=True):
    """A file."""

    file: ChatFile


ChatPart = TextPart | RefusalPart | ImagePart | AudioPart | FilePart


class CalledFunction(Struct, frozen=True):
    """A function, and its arguments: JSON text. Some clients forget to make it one."""

    name: str
    arguments: str | JsonObject | None = None

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        given = self.arguments
        return given if isinstance(given, str) and given else msgspec.json.encode(given or {}).decode()


class CalledCustom(Struct, frozen=True):
    """A custom tool, and its input."""

    name: str
    input: str = ""


class ChatCall(Struct, frozen=True):
    """A call that the model made."""

    id: str
    type: Literal["function", "custom"] = "function"
    function: CalledFunction | None = None
    custom: CalledCustom | None = None


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One message: text, calls or the output of a call."""

    role: Role
    content: str | list[ChatPart] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None
    function_call: CalledFunction | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    """The name that some servers give to `reasoning_content`."""
    audio: Any = None


class SchemaFormat(Struct, frozen=True):
    """The schema that an answer must follow."""

    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: JsonObject | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Struct, frozen=True):
    """The shape of the answer's text."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: SchemaFormat | None = None


class ChatStreamOptions(Struct, frozen=True):
    """Options of a stream. Obfuscation has no effect."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ApproximateLocation(Struct, frozen=True):
    """Where the user is, roughly."""

    city: str | None = None
    country: str | None = None
    region: str | None = None
    timezone: str | None = None


class SearchLocation(Struct, frozen=True):
    """The location of a search: nested here, flat in the engine."""

    approximate: ApproximateLocation
    type: Literal["approximate"] = "approximate"


class WebSearchOptions(Struct, frozen=True):
    """The model may search the web."""

    search_context_size: Literal["low", "medium", "high"] | None = None
    user_location: SearchLocation | None = None


class ChatBody(Struct, frozen=True, kw_only=True):
    """The request body."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[ChatMessage], Meta(min_length=1, max_length=10_000)]
    audio: Any = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    function_call: str | JsonObject | None = None
    functions: list[Any] | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    metadata: Metadata | None = None
    modalities: list[str] | None = None
    moderation: Any = None
    n: int | None = None
    parallel_tool_calls: bool | None = None
    prediction: Any = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: JsonObject | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    reasoning: ReasoningOptions | None = None
    """Not OpenAI's: some servers have the options of the Responses API here."""
    reasoning_effort: Effort | None = None
    response_format: ResponseFormat | None = None
    safety_identifier: Annotated[str, Meta(max_length=128)] | None = None
    seed: int | None = None
    service_tier: ServiceTier | None = None
    stop: str | list[str] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    tool_choice: str | JsonObject | None = None
    tools: list[Any] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    user: str | None = None
    verbosity: Verbosity | None = None
    web_search_options: WebSearchOptions | None = None
