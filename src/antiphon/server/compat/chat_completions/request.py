"""From the bytes of a chat request to a question for the engine."""

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.parse import check_metadata, check_text, decode, missing
from antiphon.protocol.requests import (
    CreateBody,
    CreateResponse,
    Includable,
    ReasoningOptions,
    TextFormat,
    TextOptions,
)
from antiphon.server.compat.api import CompatRequest, Names
from antiphon.server.compat.chat_completions.messages import read_messages
from antiphon.server.compat.chat_completions.tools import read_choice, read_tools
from antiphon.server.compat.chat_completions.wire import ApproximateLocation, ChatBody
from antiphon.server.compat.foreign_params import (
    CHAT,
    MESSAGES,
    MESSAGES_ONLY,
    RESPONSES,
    RESPONSES_ONLY,
    not_used,
    refuse_foreign_params,
    unused_params,
)
from antiphon.server.compat.stop_params import read_stops

_KNOWN = frozenset(ChatBody.__struct_fields__)
_FOREIGN_PARAMS = {RESPONSES: RESPONSES_ONLY, MESSAGES: MESSAGES_ONLY}
_MAX_STOPS = 4
NAMES = Names(
    params={
        "input": "messages",
        "max_output_tokens": "max_completion_tokens",
        "reasoning.effort": "reasoning_effort",
        "text.format": "response_format",
        "text.format.schema": "response_format.json_schema.schema",
        "text.verbosity": "verbosity",
    },
    members={
        ".call_id": ".tool_call_id",
        ".file_data": ".file.file_data",
        ".file_id": ".file.file_id",
        ".file_url": ".file",
        ".image_url": ".image_url.url",
        ".output": ".content",
    },
)


def read_chat(raw: bytes) -> tuple[CompatRequest, ChatBody]:
    """Read and check a request; raises `InvalidRequest` with the parameter."""
    if not raw:
        raise InvalidRequest("The request body is empty; send a JSON object.", code="invalid_json")
    check_text(raw)
    given = decode(raw, dict[str, msgspec.Raw])
    refuse_foreign_params(given, CHAT, _FOREIGN_PARAMS)
    body = decode(raw, ChatBody)
    downgrades = [*_check(body), *unused_params(given, _KNOWN)]
    stops = _stops(body)
    definitions = Definitions()
    tools, choice, params = read_tools(body, definitions), read_choice(body), _params(body, definitions)
    conversation = read_messages(body.messages)
    return CompatRequest(
        request=CreateResponse(
            params=params,
            items=conversation.items,
            tools=tools,
            tool_choice=choice,
            unchecked=definitions.unchecked,
        ),
        names=_names(body, len(tools) - 1),
        streamed=body.stream is True,
        places=conversation.places,
        downgrades=(*conversation.downgrades, *downgrades),
        stops=stops,
    ), body


def _names(body: ChatBody, last: int) -> Names:
    """The names, with that of the tool at the index `last` if `web_search_options` declares it."""
    if body.web_search_options is None:
        return NAMES
    declared, options = f"tools[{last}]", "web_search_options"
    location = f"{options}.user_location.approximate"
    members = {
        f"{declared}.user_location.{name}": f"{location}.{name}"
        for name in ApproximateLocation.__struct_fields__
    }
    return replace(NAMES, params={**NAMES.params, **members, f"{declared}.type": options})


def _check(body: ChatBody) -> list[Downgrade]:
    """Reject unsupported parameters that would change the answer; report the others."""
    check_metadata(body.metadata)
    if body.n is not None and body.n != 1:
        message = "'n' must be 1: one request has one answer. Send several requests."
        raise Unsupported(message, param="n", code="unsupported_value")
    if body.audio is not None or "audio" in (body.modalities or ()):
        param = "modalities" if body.audio is None else "audio"
        message = "Answers are text only. Leave 'audio' out, and out of 'modalities'."
        raise Unsupported(message, param=param, code="unsupported_parameter")
    for name, value in (("logit_bias", body.logit_bias), ("moderation", body.moderation)):
        if value:
            message = f"'{name}' is not supported by this server. Leave it out."
            raise Unsupported(message, param=name, code="unsupported_parameter")
    if body.top_logprobs is not None and not body.logprobs:
        message = "'top_logprobs' needs 'logprobs': true."
        raise InvalidRequest(message, param="top_logprobs", code="invalid_value")
    return _left_out(body)


def _left_out(body: ChatBody) -> list[Downgrade]:
    downgrades: list[Downgrade] = []
    hints = [name for name in ("prediction", "seed") if getattr(body, name) is not None]
    if hints:
        downgrades.append(not_used(*hints))
    if body.store:
        downgrades.append(
            Downgrade("not_stored", "not stored: POST /v1/responses stores responses", ("store",))
        )
    return downgrades


def _stops(body: ChatBody) -> tuple[str, ...]:
    return read_stops((body.stop,) if isinstance(body.stop, str) else body.stop or (), "stop", _MAX_STOPS)


def _params(body: ChatBody, definitions: Definitions) -> CreateBody:
    include: list[Includable] | None = ["message.output_text.logprobs"] if body.logprobs else None
    return CreateBody(
        model=body.model,
        frequency_penalty=body.frequency_penalty,
        include=include,
        max_output_tokens=_limit(body),
        metadata=body.metadata,
        parallel_tool_calls=False if body.functions else body.parallel_tool_calls,
        presence_penalty=body.presence_penalty,
        prompt_cache_key=body.prompt_cache_key,
        prompt_cache_options=body.prompt_cache_options,
        prompt_cache_retention=body.prompt_cache_retention,
        reasoning=_reasoning(body),
        safety_identifier=body.safety_identifier,
        service_tier=body.service_tier,
        store=False,
        stream=body.stream is True,
        temperature=body.temperature,
        text=_text(body, definitions),
        top_logprobs=body.top_logprobs,
        top_p=body.top_p,
        user=body.user,
    )


def _limit(body: ChatBody) -> int | None:
    old, new = body.max_tokens, body.max_completion_tokens
    if old is not None and new is not None and old != new:
        message = "'max_tokens' is the old name of 'max_completion_tokens'. Send one of them."
        raise InvalidRequest(message, param="max_tokens", code="mutually_exclusive_parameters")
    return old if new is None else new


def _reasoning(body: ChatBody) -> ReasoningOptions | None:
    if body.reasoning_effort is not None:
        return ReasoningOptions(effort=body.reasoning_effort)
    return body.reasoning


def _text(body: ChatBody, definitions: Definitions) -> TextOptions | None:
    form = body.response_format
    if form is None:
        return None if body.verbosity is None else TextOptions(verbosity=body.verbosity)
    if form.type != "json_schema":
        return TextOptions(TextFormat(type=form.type), body.verbosity)
    named = form.json_schema
    if named is None:
        raise missing("response_format.json_schema")
    if named.schema is None:
        raise missing("response_format.json_schema.schema")
    definitions.schema(named.schema, "response_format.json_schema.schema")
    form = TextFormat(
        type="json_schema",
        name=named.name,
        schema=named.schema,
        description=UNSET if named.description is None else named.description,
        strict=UNSET if named.strict is None else named.strict,
    )
    return TextOptions(form, body.verbosity)
