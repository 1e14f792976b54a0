"""`Response`: the API object. Every lifecycle event contains all fields that strict clients require."""

from operator import attrgetter
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field, to_builtins
from msgspec.structs import fields, replace

from antiphon.protocol.content import JsonObject, Metadata, OutputText
from antiphon.protocol.items import Message, OutputItem
from antiphon.protocol.requests import (
    CreateBody,
    CreateResponse,
    ReasoningOptions,
    ServiceTier,
    TextFormat,
    TextOptions,
    Truncation,
)
from antiphon.protocol.tools import HostedTool

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
IncompleteReason = Literal["max_output_tokens", "content_filter", "max_messages", "steered"]


class InputTokensDetails(Struct, frozen=True):
    """The input tokens that were read from a cache and written to it."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(Struct, frozen=True):
    """The output tokens that were used for reasoning."""

    reasoning_tokens: int = 0


class Usage(Struct, frozen=True):
    """Token counts as the upstream reported them. Antiphon never estimates them."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ImageTokens(Struct, frozen=True):
    """The tokens of images, by their kind."""

    image_tokens: int = 0
    text_tokens: int = 0


class ImageUsage(Struct, frozen=True):
    """The tokens of generated images. No model's server reports them here: they are always 0."""

    input_tokens: int = 0
    input_tokens_details: ImageTokens = ImageTokens()
    output_tokens: int = 0
    output_tokens_details: ImageTokens = ImageTokens()
    total_tokens: int = 0


class WebSearchUsage(Struct, frozen=True):
    """The searches of a response."""

    num_requests: int = 0


class ToolUsage(Struct, frozen=True):
    """What hosted tools have used."""

    image_gen: ImageUsage = ImageUsage()
    web_search: WebSearchUsage = WebSearchUsage()


NO_TOOL_USAGE = ToolUsage()


class Billing(Struct, frozen=True):
    """Who pays for a response: always the owner of the key."""

    payer: Literal["developer"] = "developer"


_BILLING = Billing()


class ResponseError(Struct, frozen=True):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(Struct, frozen=True):
    """Why a response stopped early."""

    reason: IncompleteReason


class Response(Struct, frozen=True, kw_only=True):
    """One response: the parameters of its request, its output and its usage."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: ResponseStatus = "in_progress"
    background: bool = False
    billing: Billing = _BILLING
    conversation: JsonObject | UnsetType | None = UNSET
    """Absent if there is none. Earlier versions have stored null."""
    error: ResponseError | None = None
    frequency_penalty: float = 0.0
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: Metadata = {}
    model: str
    moderation: None = None
    """Always null: moderated requests are refused."""
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    presence_penalty: float = 0.0
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    reasoning: ReasoningOptions = ReasoningOptions()
    safety_identifier: str | None = None
    service_tier: ServiceTier = "default"
    store: bool = True
    temperature: float = 1.0
    text: TextOptions
    tool_choice: str | JsonObject = "auto"
    tool_usage: ToolUsage = NO_TOOL_USAGE
    tools: list[Any] = []
    top_logprobs: int = 0
    top_p: float = 1.0
    truncation: Truncation = "disabled"
    usage: Usage | None = None
    user: str | None = None
    downgrades: list[str] | UnsetType = UNSET
    """Antiphon's own field: the parts of the request that were emulated or omitted, and why. Absent if there
    are none."""
    created: int | UnsetType = UNSET
    debug: JsonObject | UnsetType = field(default=UNSET, name="_proxy")
    """Some profiles add `created` and `_proxy` when they render a response (`shape.py`)."""

    @property
    def output_text(self) -> str:
        """The text of all messages of the output, for callers in the same process."""
        return "".join(
            part.text
            for item in self.output
            if isinstance(item, Message) and not isinstance(item.content, str)
            for part in item.content
            if isinstance(part, OutputText)
        )


_PLAIN_TEXT = TextFormat(type="text")
_BLANK = Response(id="", created_at=0, model="", text=TextOptions(_PLAIN_TEXT, "medium"))
_ECHOED = tuple(
    param.name
    for param in fields(CreateBody)
    if param.name
    in {own.name for own in fields(Response)}
    - {"conversation", "model", "moderation", "service_tier", "store", "text"}
)
"""The parameters that a response repeats unchanged. Absent ones have the default of `Response`."""
_echoed = attrgetter(*_ECHOED)
_NONE_ECHOED = (None,) * len(_ECHOED)


def new_response(request: CreateResponse, *, id: str, created_at: int) -> Response:
    """The initial response: the parameters of the request, and no output."""
    given = request.params
    echo: dict[str, Any] = {
        "id": id,
        "created_at": created_at,
        "model": given.model,
        "store": request.stored,
    }
    values = _echoed(given)
    if values != _NONE_ECHOED:
        echo |= {name: value for name, value in zip(_ECHOED, values, strict=True) if value is not None}
    if given.service_tier is not None and given.service_tier != "auto":
        echo["service_tier"] = given.service_tier
    if given.text is not None:
        echo["text"] = TextOptions(given.text.format or _PLAIN_TEXT, given.text.verbosity or "medium")
    if request.conversation_id is not None:
        echo["conversation"] = {"id": request.conversation_id}
    if request.tools:
        echo["tools"] = [tool.body if isinstance(tool, HostedTool) else tool for tool in request.tools]
    if request.tool_choice != "auto":
        echo["tool_choice"] = to_builtins(request.tool_choice)
    return replace(_BLANK, **echo)
