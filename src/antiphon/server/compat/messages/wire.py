"""The body of ``POST /v1/messages``, typed and bounded. Content blocks are read one by one (`blocks.py`)."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from antiphon.protocol.content import JsonObject


class WireMessage(Struct, frozen=True):
    """One message."""

    role: str
    content: str | list[Any]


class Thinking(Struct, frozen=True):
    """How the model shall think. `adaptive`: as it sees fit."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Annotated[int, Meta(ge=1)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(Struct, frozen=True):
    """The schema that the answer must follow."""

    type: Literal["json_schema"]
    schema: JsonObject


class OutputConfig(Struct, frozen=True):
    """The effort and the format of the answer."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class WireMetadata(Struct, frozen=True):
    """For whom the request is made."""

    user_id: str | None = None


class WireChoice(Struct, frozen=True):
    """Whether the model must call, and what."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class CountBody(Struct, frozen=True, kw_only=True):
    """The body of ``POST /v1/messages/count_tokens``."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[WireMessage], Meta(min_length=1, max_length=10_000)]
    cache_control: JsonObject | None = None
    container: Any = None
    context_management: JsonObject | None = None
    mcp_servers: list[Any] | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    """The name of `output_config.format` while it was new."""
    speed: Literal["standard", "fast"] | None = None
    system: str | list[Any] | None = None
    thinking: Thinking | None = None
    tool_choice: WireChoice | None = None
    tools: list[Any] | None = None


class MessagesBody(CountBody, frozen=True, kw_only=True):
    """The request body."""

    max_tokens: Annotated[int, Meta(ge=1)]
    metadata: WireMetadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
