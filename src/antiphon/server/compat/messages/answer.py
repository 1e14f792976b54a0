"""From a finished response to a `message`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.protocol.content import JsonObject, OutputText, Refusal
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.items import FunctionCall, Message, OutputItem, Reasoning
from antiphon.protocol.response import Response
from antiphon.protocol.tool_items import CodeInterpreterCall, McpCall, McpListTools, WebSearchCall
from antiphon.server.compat.content import reasoning_text, refusal_text
from antiphon.server.compat.messages.server_blocks import (
    CitedPages,
    Container,
    arguments_object,
    last_container,
    result_block,
    use_block,
    use_input,
    with_private_side,
)
from antiphon.service.containers.containers import DEFAULT_IDLE_MINUTES
from antiphon.turn.sealing import Sealer

RENDERED = (Message, Reasoning, FunctionCall, WebSearchCall, CodeInterpreterCall, McpCall, McpListTools)
"""The items that a message has a place for. The list of tools of a server is only of use to a client that
lists them itself, and is left out."""

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]
_UNCITED = Downgrade(
    "output_omitted", "citations are left out: this API requires the quoted text, which is not known"
)


class ServerToolUse(Struct, frozen=True, kw_only=True):
    """How often hosted tools were used."""

    web_search_requests: int
    web_fetch_requests: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    """The usage. This API has no value for unknown: without numbers from the upstream it is 0."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0
    server_tool_use: ServerToolUse | UnsetType = UNSET


class AnswerMessage(Struct, tag_field="type", tag="message", frozen=True, kw_only=True):
    """The complete answer. `downgrades` is an extension of Antiphon."""

    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[JsonObject] = []
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    usage: Usage = Usage()
    container: Container | UnsetType = UNSET
    downgrades: list[str] | UnsetType = UNSET


class Shown(Struct, frozen=True, kw_only=True):
    """What an answer shows, besides the response."""

    sealer: Sealer
    pages: CitedPages
    private: Mapping[str, str]
    """What the model was shown of hosted calls, by item id."""
    thoughts: bool = True
    """Whether the text of reasoning is shown."""


def whole_message(response: Response, stop: str | None, *, downgrades: Sequence[str], shown: Shown) -> bytes:
    """The JSON answer."""
    return msgspec.json.encode(
        AnswerMessage(
            id=message_id(response),
            model=response.model,
            content=[block for item in response.output for block in _blocks(item, shown)],
            stop_reason=stop_reason(response, stop),
            stop_sequence=stop,
            usage=message_usage(response),
            container=message_container(response),
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


def message_container(response: Response) -> Container | UnsetType:
    """The container in which code was run, and the time until which it lives at least."""
    used = last_container(response.output)
    if used is None:
        return UNSET
    expires = datetime.fromtimestamp(response.created_at + 60 * DEFAULT_IDLE_MINUTES, UTC)
    return Container(used, expires.isoformat())


def message_usage(response: Response) -> Usage:
    """The same numbers under the names of this API, where cached tokens are not counted as input."""
    searches = sum(isinstance(item, WebSearchCall) for item in response.output)
    server_tool_use = ServerToolUse(web_search_requests=searches) if searches else UNSET
    usage = response.usage
    if usage is None:
        return Usage(server_tool_use=server_tool_use)
    cached, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
    return Usage(
        input_tokens=max(0, usage.input_tokens - cached - written),
        cache_creation_input_tokens=written,
        cache_read_input_tokens=cached,
        output_tokens=usage.output_tokens,
        server_tool_use=server_tool_use,
    )


def message_downgrades(response: Response, shown: Shown) -> list[Downgrade]:
    """The downgrades of the rendered answer itself."""
    uncited = any(
        isinstance(part, OutputText) and not all(map(shown.pages.has, part.annotations))
        for item in response.output
        if isinstance(item, Message) and not isinstance(item.content, str)
        for part in item.content
    )
    return [_UNCITED] if uncited else []


def _blocks(item: OutputItem, shown: Shown) -> list[JsonObject]:
    match item:
        case Message():
            return _texts(item, shown)
        case Reasoning():
            return _thought(item, thoughts=shown.thoughts)
        case FunctionCall():
            called = arguments_object(item.arguments)
            return [{"type": "tool_use", "id": item.call_id, "name": item.name, "input": called}]
        case WebSearchCall() | CodeInterpreterCall() | McpCall():
            call = with_private_side(item, shown.private)
            return [{**use_block(call), "input": use_input(call)}, result_block(call, shown.sealer)]
        case _:
            return []


def _texts(item: Message, shown: Shown) -> list[JsonObject]:
    if isinstance(item.content, str):
        return []
    parts = [part for part in item.content if isinstance(part, OutputText | Refusal)]
    blocks = [_text(part, shown) for part in parts]
    return [block for block in blocks if block["text"]]


def _text(part: OutputText | Refusal, shown: Shown) -> JsonObject:
    if isinstance(part, Refusal):
        return {"type": "text", "text": part.refusal, "citations": None}
    cited = [shown.pages.citation(raw, shown.sealer) for raw in part.annotations]
    return {"type": "text", "text": part.text, "citations": [*filter(None, cited)] or None}


def _thought(item: Reasoning, *, thoughts: bool) -> list[JsonObject]:
    text, envelope = reasoning_text(item), item.encrypted_content
    if text:
        shown = text if thoughts else ""
        return [{"type": "thinking", "thinking": shown, "signature": envelope or ""}]
    return [{"type": "redacted_thinking", "data": envelope}] if envelope else []
