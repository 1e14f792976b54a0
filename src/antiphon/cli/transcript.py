"""Items as a person reads them: who, and what."""

from collections.abc import Iterable
from typing import assert_never

import msgspec
from rich.console import Console
from rich.text import Text

from antiphon.cli.terminal import harmless
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
)
from antiphon.turn.transcript import words

SEALED = "(sealed)"


def said(item: Item) -> tuple[str, str]:
    """Who said it, and what: `user`, `assistant`, `call NAME`, `output`, `reasoning`, …"""
    match item:
        case Message():
            return item.role, words(item.content)
        case FunctionCall():
            return f"call {item.name}", item.arguments
        case CustomToolCall():
            return f"call {item.name}", item.input
        case FunctionCallOutput() | CustomToolCallOutput():
            return "output", words(item.output)
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


def _thoughts(item: Reasoning) -> str:
    parts = [part.text for part in item.content or ()] or [part.text for part in item.summary]
    return "\n".join(parts) or SEALED
