"""From the bytes of a request to a question for the engine."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.parse import check_text, decode, missing
from antiphon.protocol.requests import (
    CreateBody,
    CreateResponse,
    Effort,
    ReasoningOptions,
    ServiceTier,
    TextFormat,
    TextOptions,
    Thinking,
)
from antiphon.server.compat.api import CompatRequest, Names
from antiphon.server.compat.foreign_params import (
    CHAT,
    CHAT_ONLY,
    MESSAGES,
    RESPONSES,
    RESPONSES_ONLY,
    not_used,
    refuse_foreign_params,
    unused_params,
)
from antiphon.server.compat.messages.conversation import Conversation, Envelopes
from antiphon.server.compat.messages.server_tools import ServerTools
from antiphon.server.compat.messages.tools import read_choice, read_tools
from antiphon.server.compat.messages.wire import CountBody, MessagesBody
from antiphon.server.compat.stop_params import read_stops

_FOREIGN_PARAMS = {RESPONSES: (*RESPONSES_ONLY, "reasoning"), CHAT: CHAT_ONLY}
_KNOWN = frozenset(MessagesBody.__struct_fields__)
NAMES = Names(
    params={
        "input": "messages",
        "instructions": "system",
        "max_output_tokens": "max_tokens",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "reasoning.effort": "output_config.effort",
        "text.format": "output_config.format",
        "text.format.schema": "output_config.format.schema",
        "user": "metadata.user_id",
    },
    members={
        ".call_id": ".tool_use_id",
        ".file_data": ".source",
        ".file_url": ".source",
        ".file_id": ".source.file_id",
        ".image_url": ".source",
        ".output": ".content",
    },
)
_BUDGETS: tuple[tuple[int, Effort], ...] = ((4_096, "low"), (16_384, "medium"))
"""Tokens for thinking below which an effort is meant; more is `high`."""
_MAX_STOPS = 64
_TIERS: Mapping[str | None, ServiceTier | None] = {"auto": "auto", "standard_only": "default", None: None}


def read_messages(raw: bytes, envelopes: Envelopes) -> tuple[CompatRequest, MessagesBody]:
    """Read and check a request; raises `InvalidRequest` with the parameter."""
    given = _members(raw)
    body = decode(raw, MessagesBody)
    stops = read_stops(body.stop_sequences or (), "stop_sequences", _MAX_STOPS)
    downgrades = _downgrades(body, given)
    _list_contradictions(body, downgrades)
    streamed, definitions = body.stream is True, Definitions()
    params = CreateBody(
        model=body.model,
        max_output_tokens=body.max_tokens,
        parallel_tool_calls=_parallel(body),
        reasoning=_reasoning(body),
        service_tier=_service_tier(body),
        store=False,
        stream=streamed,
        temperature=body.temperature,
        text=_text(body, definitions),
        top_p=body.top_p,
        user=body.metadata.user_id if body.metadata else None,
    )
    question = _question(body, params, definitions, downgrades, envelopes, streamed=streamed, stops=stops)
    request = replace(question.request, thinking=_thinking(body))
    return replace(question, request=request), body


def read_count(raw: bytes, envelopes: Envelopes) -> CompatRequest:
    """The same for a request that is only counted."""
    given = _members(raw)
    body = decode(raw, CountBody)
    params = CreateBody(model=body.model, store=False)
    return _question(body, params, Definitions(), _downgrades(body, given), envelopes)


def _members(raw: bytes) -> dict[str, msgspec.Raw]:
    if not raw:
        raise InvalidRequest("The request body is empty; send a JSON object.", code="invalid_json")
    check_text(raw)
    given = decode(raw, dict[str, msgspec.Raw])
    refuse_foreign_params(given, MESSAGES, _FOREIGN_PARAMS)
    return given


def _question(
    body: CountBody,
    params: CreateBody,
    definitions: Definitions,
    downgrades: Downgrades,
    envelopes: Envelopes,
    *,
    streamed: bool = False,
    stops: tuple[str, ...] = (),
) -> CompatRequest:
    conversation = Conversation(envelopes, downgrades)
    if body.system:
        conversation.system(body.system)
    conversation.read(body.messages)
    servers = ServerTools(body.mcp_servers or (), body.container, downgrades)
    tools = read_tools(body.tools or [], definitions, downgrades, servers)
    request = CreateResponse(
        params=replace(params, max_tool_calls=servers.max_calls),
        items=tuple(conversation.items),
        tools=tools,
        tool_choice=read_choice(body.tool_choice, tools),
        unchecked=definitions.unchecked,
    )
    return CompatRequest(
        request=request,
        names=replace(NAMES, params={**NAMES.params, **servers.names}),
        streamed=streamed,
        places=tuple(conversation.places),
        downgrades=tuple(downgrades),
        stops=stops,
    )


def _downgrades(body: CountBody, given: dict[str, msgspec.Raw]) -> Downgrades:
    """List parameters without effect."""
    downgrades = Downgrades()
    if body.context_management and body.context_management.get("edits"):
        downgrades.append(not_used("context_management"))
    if body.cache_control is not None:
        downgrades.append(not_used("cache_control"))
    downgrades += unused_params(given, _KNOWN)
    return downgrades


def _list_contradictions(body: MessagesBody, downgrades: Downgrades) -> None:
    """List parameters that contradict others, besides those without effect."""
    if body.top_k is not None:
        downgrades.append(not_used("top_k"))
    off = body.thinking is not None and body.thinking.type == "disabled"
    if off and body.output_config is not None and body.output_config.effort is not None:
        text = "'{param}' is not used: thinking is disabled"
        downgrades.add("not_used", text, "output_config.effort")
    if body.speed == "fast" and body.service_tier == "standard_only":
        text = "'{param}' is not used: 'speed' contradicts it"
        downgrades.add("not_used", text, "service_tier")


def _parallel(body: MessagesBody) -> bool | None:
    if body.tool_choice is None or body.tool_choice.disable_parallel_tool_use is None:
        return None
    return not body.tool_choice.disable_parallel_tool_use


def _reasoning(body: MessagesBody) -> ReasoningOptions | None:
    """The effort of reasoning: the given one, else that of the thinking budget."""
    thinking, config = body.thinking, body.output_config
    effort: Effort | None = config.effort if config else None
    if thinking is None:
        return None if effort is None else ReasoningOptions(effort=effort)
    if thinking.type == "disabled":
        return ReasoningOptions(effort="none")
    if effort is None and thinking.type == "enabled":
        if thinking.budget_tokens is None:
            raise missing("thinking.budget_tokens")
        effort = _effort(thinking.budget_tokens)
    return ReasoningOptions(effort=effort, summary=None if thinking.display == "omitted" else "auto")


def _thinking(body: MessagesBody) -> Thinking | None:
    """Options that an effort does not express: whether the model reasons at all, and with how many tokens."""
    thinking = body.thinking
    if thinking is None or thinking.type not in ("enabled", "adaptive"):
        return None
    return Thinking(thinking.budget_tokens if thinking.type == "enabled" else None)


def _effort(budget: int) -> Effort:
    for below, meant in _BUDGETS:
        if budget < below:
            return meant
    return "high"


def _service_tier(body: MessagesBody) -> ServiceTier | None:
    if body.speed == "fast":
        return "fast"
    return _TIERS[body.service_tier]


def _text(body: MessagesBody, definitions: Definitions) -> TextOptions | None:
    form = (body.output_config.format if body.output_config else None) or body.output_format
    if form is None:
        return None
    definitions.schema(form.schema, "output_config.format.schema")
    return TextOptions(TextFormat(type="json_schema", name="output", schema=form.schema))
