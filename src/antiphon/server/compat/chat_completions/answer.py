"""From a finished response to a `chat.completion`."""

from collections.abc import Sequence
from itertools import chain
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.protocol.content import JsonObject, Logprob, OutputText
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.items import CustomToolCall, FunctionCall, Message, Reasoning
from antiphon.protocol.response import Response
from antiphon.protocol.response import Usage as EngineUsage
from antiphon.protocol.shape import finish_reason
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.server.compat.content import BLANK_LINE, message_text, reasoning_text, refusal_text

RENDERED = (Message, Reasoning, FunctionCall, CustomToolCall, WebSearchCall)
"""The items that a chat completion has a place for. Searches are seen by their citations."""

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "function_call"]


class Logprobs(Struct, frozen=True):
    """The logprobs of the text."""

    content: list[Logprob]
    refusal: None = None


class AnswerMessage(Struct, frozen=True, kw_only=True):
    """The message of the answer."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    """The same: clients of different servers look for one or the other."""
    annotations: list[JsonObject] = []
    tool_calls: list[JsonObject] | UnsetType = UNSET
    function_call: JsonObject | UnsetType = UNSET


class Choice(Struct, frozen=True, kw_only=True):
    """The one answer."""

    index: int = 0
    message: AnswerMessage
    logprobs: Logprobs | None
    finish_reason: FinishReason


class ChatCompletion(Struct, frozen=True, kw_only=True):
    """The complete answer. `downgrades` is an extension of Antiphon."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: JsonObject | None
    service_tier: str
    system_fingerprint: None = None
    downgrades: list[str] | UnsetType = UNSET


def chat_completion(response: Response, *, legacy: bool, downgrades: Sequence[str]) -> bytes:
    """The JSON answer. `legacy`: the caller sent `functions`, not `tools`."""
    return msgspec.json.encode(
        ChatCompletion(
            id=completion_id(response),
            created=response.created_at,
            model=response.model,
            choices=[
                Choice(
                    message=_message(response, legacy=legacy),
                    logprobs=_logprobs(response),
                    finish_reason=chat_finish(response, legacy=legacy),
                )
            ],
            usage=chat_usage(response.usage),
            service_tier=response.service_tier,
            downgrades=[*downgrades] or UNSET,
        )
    )


def completion_id(response: Response) -> str:
    """The response's own id, with the prefix of this API."""
    return f"chatcmpl-{response.id.partition('_')[2]}"


def chat_finish(response: Response, *, legacy: bool) -> FinishReason:
    """Why the answer ended."""
    reason = finish_reason(response)
    if reason == "tool_calls" and legacy:
        return "function_call"
    return "stop" if reason in ("error", "cancelled", None) else reason


def chat_usage(usage: EngineUsage | None) -> JsonObject | None:
    """The same numbers under the names of this API; None if the upstream reported none."""
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.output_tokens_details.reasoning_tokens},
    }


def chat_downgrades(response: Response, *, legacy: bool) -> list[Downgrade]:
    """The downgrades of the rendered answer itself."""
    calls = [item for item in response.output if isinstance(item, FunctionCall | CustomToolCall)]
    if legacy and len(calls) > 1:
        text = "the model called several functions; '{param}' has room for the first one only"
        return [Downgrade("output_omitted", text, ("function_call",))]
    return []


def chat_annotation(annotation: JsonObject, offset: int) -> JsonObject | None:
    """A citation of a web page; others have no place here. `offset`: the characters of the content before the
    text that it belongs to."""
    if annotation.get("type") != "url_citation":
        return None
    citation: JsonObject = {name: annotation.get(name) for name in ("title", "url")}
    for name in ("start_index", "end_index"):
        position = annotation.get(name)
        citation[name] = position + offset if isinstance(position, int) else position
    return {"type": "url_citation", "url_citation": citation}


def _message(response: Response, *, legacy: bool) -> AnswerMessage:
    messages = [item for item in response.output if isinstance(item, Message)]
    thoughts = [reasoning_text(item) for item in response.output if isinstance(item, Reasoning)]
    calls = [item for item in response.output if isinstance(item, FunctionCall | CustomToolCall)]
    text = BLANK_LINE.join(filter(None, map(message_text, messages)))
    refusal = BLANK_LINE.join(filter(None, map(refusal_text, messages)))
    thought = BLANK_LINE.join(filter(None, thoughts))
    return AnswerMessage(
        content=text or (None if calls or refusal else ""),
        refusal=refusal or None,
        reasoning_content=thought or UNSET,
        reasoning=thought or UNSET,
        annotations=_annotations(messages),
        tool_calls=[_call(item) for item in calls] if calls and not legacy else UNSET,
        function_call=_call(calls[0])["function"] if calls and legacy else UNSET,
    )


def _annotations(messages: Sequence[Message]) -> list[JsonObject]:
    """The citations, counted from the beginning of the joined texts."""
    found: list[JsonObject] = []
    offset = 0
    for message in messages:
        annotations = chain.from_iterable(part.annotations for part in _texts([message]))
        found += [cited for raw in annotations if (cited := chat_annotation(raw, offset))]
        offset += joined_length(message)
    return found


def joined_length(message: Message) -> int:
    """The characters of a message in the joined content, with the separator that follows it."""
    length = len(message_text(message))
    return length + len(BLANK_LINE) if length else 0


def _call(item: FunctionCall | CustomToolCall) -> JsonObject:
    if isinstance(item, CustomToolCall):
        custom = {"name": item.name, "input": item.input}
        return {"id": item.call_id, "type": "custom", "custom": custom}
    function = {"name": item.name, "arguments": item.arguments}
    return {"id": item.call_id, "type": "function", "function": function}


def _texts(messages: Sequence[Message]) -> list[OutputText]:
    return [
        part
        for message in messages
        if not isinstance(message.content, str)
        for part in message.content
        if isinstance(part, OutputText)
    ]


def _logprobs(response: Response) -> Logprobs | None:
    messages = [item for item in response.output if isinstance(item, Message)]
    tokens = [token for part in _texts(messages) for token in part.logprobs]
    return Logprobs(tokens) if tokens else None
