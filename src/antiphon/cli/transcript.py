"""Items as a person reads them: who, and what."""

from collections.abc import Iterable
from typing import assert_never

import msgspec
from rich.console import Console
from rich.text import Text

from antiphon.cli.terminal import harmless
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
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    Message,
    OpaqueItem,
    Reasoning,
    ToolOutput,
)

SEALED = "(sealed)"
_LONGEST_URL = 80


def said(item: Item) -> tuple[str, str]:
    """Who said it, and what: `user`, `assistant`, `call NAME`, `output`, `reasoning`, …"""
    match item:
        case Message():
            return item.role, _content(item.content)
        case FunctionCall():
            return f"call {item.name}", item.arguments
        case CustomToolCall():
            return f"call {item.name}", item.input
        case FunctionCallOutput() | CustomToolCallOutput():
            return "output", _content(item.output)
        case Reasoning():
            return "reasoning", _thoughts(item)
        case ItemReference():
            return "reference", item.id
        case Compaction():
            return "compaction", SEALED
        case CompactionTrigger():
            return "compaction trigger", ""
        case OpaqueItem():
            return item.type, msgspec.json.encode(item.body).decode()
        case _:
            assert_never(item)


def print_transcript(items: Iterable[Item], console: Console) -> None:
    """Every item under the name of who said it."""
    for item in items:
        who, what = said(item)
        console.print(Text(harmless(who), style="bold"), soft_wrap=True)
        console.print(Text(harmless(what)), soft_wrap=True)
        console.print()


def _content(content: str | list[MessagePart] | ToolOutput) -> str:
    return content if isinstance(content, str) else "\n".join(_part(part) for part in content)


def _part(part: MessagePart) -> str:
    match part:
        case InputText() | OutputText():
            return part.text
        case Refusal():
            return part.refusal
        case InputImage():
            return f"[image {_short(part.file_id or part.image_url)}]"
        case InputFile():
            return f"[file {_short(part.filename or part.file_id or part.file_url)}]"
        case InputAudio():
            return "[audio]"
        case _:
            assert_never(part)


def _short(name: str | None) -> str:
    """A data URL is as long as what it holds."""
    name = name or ""
    return name if len(name) <= _LONGEST_URL else f"{name[:_LONGEST_URL]}…"


def _thoughts(item: Reasoning) -> str:
    parts = [part.text for part in item.content or ()] or [part.text for part in item.summary]
    return "\n".join(parts) or SEALED
