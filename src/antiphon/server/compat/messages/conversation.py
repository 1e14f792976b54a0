"""From Anthropic's messages to items: a message may contain text, calls, their outputs and reasoning."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.bounds import check_count, check_nesting
from antiphon.protocol.content import (
    InputText,
    JsonObject,
    MessagePart,
    OutputText,
    ReasoningText,
    SummaryText,
)
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.protocol.parse import as_object, convert
from antiphon.protocol.parse_items import MAX_PARTS
from antiphon.server.compat.api import Place
from antiphon.server.compat.foreign_params import CHAT
from antiphon.server.compat.messages.blocks import (
    CacheControl,
    Parts,
    TextBlock,
    block_type,
    breakpoint_of,
    read_part,
    read_texts,
)
from antiphon.server.compat.messages.server_history import SERVER_BLOCKS, ServerCalls
from antiphon.server.compat.messages.wire import WireMessage
from antiphon.turn.sealing import Sealed


class Envelopes(Protocol):
    """Opens the envelopes that were sealed here; others are None."""

    def open(self, envelope: str) -> Sealed | None:
        """The reasoning in an envelope."""
        ...

    def open_private(self, envelope: str) -> JsonObject | None:
        """The private members in an envelope."""
        ...


FAILED = "The tool reported an error:"
_SERVERS_OWN = ("container_upload", "compaction")


class ToolUse(Struct, frozen=True):
    """The model calls a tool."""

    id: str
    name: str
    input: JsonObject = {}
    cache_control: CacheControl | None = None


class ToolResult(Struct, frozen=True):
    """The output of a tool."""

    tool_use_id: str
    content: str | list[Any] | None = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class ThinkingBlock(Struct, frozen=True):
    """Signed thinking of the model."""

    thinking: str = ""
    signature: str = ""


class RedactedThinking(Struct, frozen=True):
    """Redacted thinking of the model."""

    data: str


class Conversation:
    """The items so far, and where each of them stood."""

    def __init__(self, envelopes: Envelopes, downgrades: Downgrades) -> None:
        self._envelopes = envelopes
        self.items: list[Item] = []
        self.places: list[Place] = []
        self.downgrades = downgrades
        self._server_calls = ServerCalls(envelopes.open_private, downgrades)

    def system(self, content: str | list[Any]) -> None:
        """The prompt before all messages."""
        self._put(Message(role="system", content=_texts(read_texts(content, "system"))), Place("system"))

    def read(self, messages: Sequence[WireMessage]) -> None:
        """All messages."""
        _check_bounds(messages)
        for index, message in enumerate(messages):
            path = f"messages[{index}]"
            match message.role:
                case "user":
                    self._user(message, path)
                case "assistant":
                    self._assistant(message, path)
                case "system":
                    texts = read_texts(message.content, f"{path}.content")
                    self._put(Message(role="system", content=_texts(texts)), Place(path))
                case _:
                    raise _foreign_role(message.role, f"{path}.role")
        self._server_calls.end()
        if messages[-1].role == "assistant":
            text = "the last message is the model's own: most models begin a new one"
            self.downgrades.add("input_rewritten", text, "messages")

    def _put(self, item: Item, place: Place) -> None:
        self.items.append(item)
        self.places.append(place)

    def _user(self, message: WireMessage, path: str) -> None:
        if isinstance(message.content, str):
            self._put(Message(role="user", content=message.content), Place(path))
            return
        parts = Parts()
        for index, value in enumerate(message.content):
            where = f"{path}.content[{index}]"
            block = as_object(value, where)
            if block_type(block, where) != "tool_result":
                parts.add(index, read_part(block, where, self.downgrades))
                continue
            self._put_parts(parts, path)
            parts = Parts()
            self._result(convert(block, ToolResult, where), where)
        self._put_parts(parts, path)

    def _put_parts(self, parts: Parts, path: str) -> None:
        if parts.parts:
            self._put(Message(role="user", content=[*parts.parts]), Place(path, tuple(parts.blocks)))

    def _result(self, block: ToolResult, path: str) -> None:
        read = Parts()
        if block.is_error:
            read.add(0, [InputText(text=FAILED)])
        self._read_result(block.content or [], f"{path}.content", read)
        read.mark_last(block.cache_control)
        parts = read.parts
        plain = len(parts) == 1 and isinstance(parts[0], InputText) and block.cache_control is None
        output = parts[0].text if plain and isinstance(parts[0], InputText) else parts
        place = Place(path, tuple(read.blocks))
        self._put(FunctionCallOutput(call_id=block.tool_use_id, output=output or ""), place)

    def _read_result(self, content: str | list[Any], path: str, read: Parts) -> None:
        """Without the references to tools, which only Anthropic's own tool search makes."""
        if isinstance(content, str):
            read.add(0, [InputText(text=content)])
            return
        for index, value in enumerate(content):
            where = f"{path}[{index}]"
            block = as_object(value, where)
            if block_type(block, where) == "tool_reference":
                text = "references to tools are left out: every tool is shown to the model"
                self.downgrades.add("input_omitted", text, "messages")
            else:
                read.add(index, read_part(block, where, self.downgrades))

    def _assistant(self, message: WireMessage, path: str) -> None:
        if isinstance(message.content, str):
            self._put(Message(role="assistant", content=message.content), Place(path))
            return
        for index, value in enumerate(message.content):
            where = f"{path}.content[{index}]"
            self._models_block(as_object(value, where), where)

    def _models_block(self, block: JsonObject, path: str) -> None:
        kind = block_type(block, path)
        match kind:
            case "text":
                text = convert(block, TextBlock, path)
                self._put(Message(role="assistant", content=_assistant_text(text)), Place(path))
            case "tool_use":
                call = convert(block, ToolUse, path)
                if call.cache_control is not None:
                    self.downgrades.add("not_sent", "cache markers on calls are not passed on", "messages")
                arguments = msgspec.json.encode(call.input).decode()
                self._put(FunctionCall(call_id=call.id, name=call.name, arguments=arguments), Place(path))
            case "thinking":
                self._thought(convert(block, ThinkingBlock, path), path)
            case "redacted_thinking":
                self._sealed_thought(convert(block, RedactedThinking, path), path)
            case _ if kind in SERVER_BLOCKS:
                for item in self._server_calls.read(kind, block, path):
                    self._put(item, Place(path))
            case _ if kind in _SERVERS_OWN or kind.endswith("_tool_result"):
                left_out = f"content blocks of type '{kind}' are left out: this model cannot read them"
                self.downgrades.add("input_omitted", left_out, "messages")
            case _:
                message = f"Invalid value for '{path}.type': the assistant has no block of type '{kind}'."
                raise InvalidRequest(message, param=f"{path}.type", code="invalid_value")

    def _thought(self, block: ThinkingBlock, path: str) -> None:
        """Antiphon's signature is the envelope; it contains the complete reasoning, even if less is shown."""
        sealed = self._envelopes.open(block.signature) if block.signature else None
        if sealed is not None:
            shown = [SummaryText(block.thinking)] if block.thinking and not sealed.reasoning else []
            self._put(Reasoning(summary=shown, encrypted_content=block.signature), Place(path))
            return
        if block.signature:
            ignored = "signatures of thoughts that were not made here are ignored"
            self.downgrades.add("input_omitted", ignored, "messages")
        if block.thinking:
            self._put(Reasoning(summary=[], content=[ReasoningText(block.thinking)]), Place(path))

    def _sealed_thought(self, block: RedactedThinking, path: str) -> None:
        if self._envelopes.open(block.data) is None:
            left_out = "redacted thoughts that were not made here are left out"
            self.downgrades.add("input_omitted", left_out, "messages")
        else:
            self._put(Reasoning(summary=[], encrypted_content=block.data), Place(path))


def _check_bounds(messages: Sequence[WireMessage]) -> None:
    blocks = 0
    for index, message in enumerate(messages):
        if isinstance(message.content, list):
            check_nesting(message.content, f"messages[{index}].content")
            blocks += len(message.content)
            for block in message.content:
                inner = cast("JsonObject", block).get("content") if isinstance(block, dict) else None
                blocks += len(cast("list[Any]", inner)) if isinstance(inner, list) else 0
    check_count(blocks, MAX_PARTS, "messages", "content blocks")


def _texts(texts: Sequence[InputText]) -> str | list[MessagePart]:
    return texts[0].text if len(texts) == 1 and not texts[0].prompt_cache_breakpoint else [*texts]


def _assistant_text(block: TextBlock) -> str | list[MessagePart]:
    if block.cache_control is None:
        return block.text
    return [OutputText(text=block.text, prompt_cache_breakpoint=breakpoint_of(block.cache_control))]


def _foreign_role(role: str, path: str) -> InvalidRequest:
    hint = ""
    if role in ("tool", "developer", "function"):
        hint = f" That is a role of {CHAT}; here the user sends the output of a tool, as a 'tool_result'."
    message = f"Invalid value for '{path}': '{role[:100]}'; use 'user', 'assistant' or 'system'.{hint}"
    return InvalidRequest(message, param=path, code="invalid_value")
