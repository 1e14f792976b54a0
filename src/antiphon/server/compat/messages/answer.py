"""From a finished response to a `message`."""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.protocol.content import JsonObject, OutputText, Refusal
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.items import FunctionCall, Message, OutputItem, Reasoning
from antiphon.protocol.response import Response
from antiphon.protocol.response import Usage as EngineUsage
from antiphon.server.compat.content import reasoning_text, refusal_text

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]
UNREADABLE = "INVALID_JSON"
"""The member that holds arguments which are no JSON object: Anthropic's own advice for such input."""
_UNCITED = Downgrade(
    "output_omitted", "citations are left out: this API requires the quoted text, which is not stored"
)


class Usage(Struct, frozen=True, kw_only=True):
    """The usage. This API has no value for unknown: without numbers from the upstream it is 0."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class AnswerMessage(Struct, tag_field="type", tag="message", frozen=True, kw_only=True):
    """The complete answer. `downgrades` is an extension of Antiphon."""

    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[JsonObject] = []
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    usage: Usage = Usage()
    downgrades: list[str] | UnsetType = UNSET


def whole_message(
    response: Response, stop: str | None, *, downgrades: Sequence[str], thoughts: bool
) -> bytes:
    """The JSON answer. `thoughts`: whether the text of reasoning is shown."""
    return msgspec.json.encode(
        AnswerMessage(
            id=message_id(response),
            model=response.model,
            content=[block for item in response.output for block in _blocks(item, thoughts=thoughts)],
            stop_reason=stop_reason(response, stop),
            stop_sequence=stop,
            usage=message_usage(response.usage),
            downgrades=[*downgrades] or UNSET,
        )
    )


def message_id(response: Response) -> str:
    """The response's own id, with the prefix of this API."""
    return f"msg_{response.id.partition('_')[2]}"


def stop_reason(response: Response, stop: str | None) -> StopReason:
    """Why the answer ended."""
    if stop is not None:
        return "stop_sequence"
    details = response.incomplete_details
    if details is not None:
        return "refusal" if details.reason == "content_filter" else "max_tokens"
    if any(isinstance(item, FunctionCall) for item in response.output):
        return "tool_use"
    refused = any(isinstance(item, Message) and refusal_text(item) for item in response.output)
    return "refusal" if refused else "end_turn"


def message_usage(usage: EngineUsage | None) -> Usage:
    """The same numbers under the names of this API, where cached tokens are not counted as input."""
    if usage is None:
        return Usage()
    cached, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
    return Usage(
        input_tokens=max(0, usage.input_tokens - cached - written),
        cache_creation_input_tokens=written,
        cache_read_input_tokens=cached,
        output_tokens=usage.output_tokens,
    )


def message_downgrades(response: Response) -> list[Downgrade]:
    """The downgrades of the rendered answer itself."""
    cited = any(
        isinstance(part, OutputText) and part.annotations
        for item in response.output
        if isinstance(item, Message) and not isinstance(item.content, str)
        for part in item.content
    )
    return [_UNCITED] if cited else []


def _blocks(item: OutputItem, *, thoughts: bool) -> list[JsonObject]:
    match item:
        case Message():
            return _texts(item)
        case Reasoning():
            return _thought(item, thoughts=thoughts)
        case FunctionCall():
            called = _object(item.arguments)
            return [{"type": "tool_use", "id": item.call_id, "name": item.name, "input": called}]
        case _:
            return []


def _texts(item: Message) -> list[JsonObject]:
    if isinstance(item.content, str):
        return []
    texts = [_part_text(part) for part in item.content if isinstance(part, OutputText | Refusal)]
    return [{"type": "text", "text": text, "citations": None} for text in texts if text]


def _part_text(part: OutputText | Refusal) -> str:
    return part.text if isinstance(part, OutputText) else part.refusal


def _thought(item: Reasoning, *, thoughts: bool) -> list[JsonObject]:
    text, envelope = reasoning_text(item), item.encrypted_content
    if text:
        shown = text if thoughts else ""
        return [{"type": "thinking", "thinking": shown, "signature": envelope or ""}]
    return [{"type": "redacted_thinking", "data": envelope}] if envelope else []


def _object(arguments: str) -> JsonObject:
    try:
        called = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        called = None
    return cast("JsonObject", called) if isinstance(called, dict) else {UNREADABLE: arguments}
