"""`Response`: the API object. Every field that a strict client requires is there in every lifecycle event."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import OutputItem
from antiphon.protocol.requests import (
    CreateResponse,
    Metadata,
    ReasoningOptions,
    ServiceTier,
    TextFormat,
    TextOptions,
    Truncation,
)
from antiphon.protocol.tools import HostedTool, ToolChoice

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
IncompleteReason = Literal["max_output_tokens", "content_filter", "max_messages", "steered"]


class InputTokensDetails(Struct, frozen=True):
    """Where the input tokens came from."""

    cached_tokens: int = 0


class OutputTokensDetails(Struct, frozen=True):
    """What the output tokens were spent on."""

    reasoning_tokens: int = 0


class Usage(Struct, frozen=True):
    """Tokens as the upstream reported them; never invented."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseError(Struct, frozen=True):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(Struct, frozen=True):
    """Why a response stopped early."""

    reason: IncompleteReason


class Response(Struct, frozen=True, kw_only=True):
    """One response: what was asked (echoed), what came of it, what it cost."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: ResponseStatus = "in_progress"
    background: bool = False
    conversation: JsonObject | None = None
    error: ResponseError | None = None
    frequency_penalty: float = 0.0
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: Metadata = {}
    model: str
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
    tool_choice: ToolChoice = "auto"
    tools: list[Any] = []
    top_logprobs: int = 0
    top_p: float = 1.0
    truncation: Truncation = "disabled"
    usage: Usage | None = None
    user: str | None = None
    downgrades: list[str] | UnsetType = UNSET
    """Antiphon's own: what of the request was emulated or left out, and why. Absent when nothing was."""


_PLAIN_TEXT = TextFormat(type="text")
_DEFAULT_TEXT = TextOptions(_PLAIN_TEXT, "medium")
_DEFAULT_REASONING = ReasoningOptions()


def new_response(request: CreateResponse, *, id: str, created_at: int) -> Response:
    """The response at its start: the request echoed, no output yet."""
    given = request.params
    tier = given.service_tier
    return Response(
        id=id,
        created_at=created_at,
        background=given.background or False,
        frequency_penalty=given.frequency_penalty or 0.0,
        instructions=given.instructions,
        max_output_tokens=given.max_output_tokens,
        max_tool_calls=given.max_tool_calls,
        metadata=given.metadata or {},
        model=given.model,
        parallel_tool_calls=given.parallel_tool_calls is not False,
        presence_penalty=given.presence_penalty or 0.0,
        previous_response_id=given.previous_response_id,
        prompt_cache_key=given.prompt_cache_key,
        prompt_cache_retention=given.prompt_cache_retention,
        reasoning=given.reasoning or _DEFAULT_REASONING,
        safety_identifier=given.safety_identifier,
        service_tier="default" if tier is None or tier == "auto" else tier,
        store=request.stored,
        temperature=1.0 if given.temperature is None else given.temperature,
        text=_echo_text(given.text),
        tool_choice=request.tool_choice,
        tools=[tool.body if isinstance(tool, HostedTool) else tool for tool in request.tools],
        top_logprobs=given.top_logprobs or 0,
        top_p=1.0 if given.top_p is None else given.top_p,
        truncation=given.truncation or "disabled",
        user=given.user,
    )


def _echo_text(text: TextOptions | None) -> TextOptions:
    if text is None:
        return _DEFAULT_TEXT
    return TextOptions(text.format or _PLAIN_TEXT, text.verbosity or "medium")
