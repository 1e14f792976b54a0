"""Estimate the tokens of a request without the model's tokenizer.

One token per four bytes of UTF-8, rounded up; four more per item and for the instructions, for the markup of
the chat template. Images and files count at fixed rates.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec
from msgspec import Struct, UnsetType

from antiphon.protocol.content import (
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    MessagePart,
    OutputText,
    Refusal,
)
from antiphon.protocol.items import (
    CallItem,
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    FunctionCall,
    Item,
    ItemReference,
    Message,
    Reasoning,
    is_call,
    is_output,
)
from antiphon.protocol.stored_items import item_to_text
from antiphon.protocol.tools import HostedTool, Tool
from antiphon.turn.function_forms.calls import call_arguments
from antiphon.turn.function_forms.outputs import call_output

BYTES_PER_TOKEN = 4
TOKENS_PER_ITEM = 4
TOKENS_PER_IMAGE = 765
TOKENS_PER_SMALL_IMAGE = 85
TOKENS_PER_FILE = 1_000


class Reading(Struct, frozen=True):
    """The content of a request: texts, the number of items, and the tokens of images and files."""

    texts: Sequence[str]
    items: int
    attached: int

    @property
    def template_tokens(self) -> int:
        """Tokens that the chat template adds."""
        return self.items * TOKENS_PER_ITEM


def read(items: Iterable[Item], instructions: str | None, tools: Iterable[Tool]) -> Reading:
    """Collect the content of a request."""
    texts = [_tool_text(tool) for tool in tools]
    count = attached = 0
    if instructions:
        texts.append(instructions)
        count += 1
    for item in items:
        count += 1
        for part in _parts(item):
            if isinstance(part, str):
                texts.append(part)
            else:
                attached += part
    return Reading(texts, count, attached)


def estimate_tokens(items: Iterable[Item], instructions: str | None, tools: Iterable[Tool]) -> int:
    return estimate(read(items, instructions, tools))


def estimate(reading: Reading) -> int:
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in reading.texts)
    return -(-size // BYTES_PER_TOKEN) + reading.template_tokens + reading.attached


def _parts(item: Item) -> list[str | int]:
    """The texts of an item, and the tokens of images and files."""
    if is_call(item):
        return _called(item)
    if is_output(item):
        return _content(call_output(item))
    match item:
        case Message():
            return _content(item.content)
        case Reasoning():
            return _reasoning(item)
        case Compaction():
            return [item.encrypted_content]
        case CompactionTrigger() | ItemReference():
            return []
        case _:
            return [item_to_text(item)]


def _called(call: CallItem) -> list[str | int]:
    match call:
        case FunctionCall():
            return [call.name, call.arguments]
        case CustomToolCall():
            return [call.name, call.input]
        case _:
            return [call_arguments(call)]


def _content(content: str | Sequence[MessagePart]) -> list[str | int]:
    return [content] if isinstance(content, str) else [_part(part) for part in content]


def _part(part: MessagePart) -> str | int:
    match part:
        case InputText() | OutputText():
            return part.text
        case Refusal():
            return part.refusal
        case InputImage():
            return TOKENS_PER_SMALL_IMAGE if part.detail == "low" else TOKENS_PER_IMAGE
        case InputFile() | InputAudio():
            return TOKENS_PER_FILE
        case _:
            assert_never(part)


def _reasoning(item: Reasoning) -> list[str | int]:
    if not isinstance(item.content, UnsetType) and item.content:
        return [part.text for part in item.content]
    return [part.text for part in item.summary]


def _tool_text(tool: Tool) -> str:
    return _json(tool.body if isinstance(tool, HostedTool) else tool)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
