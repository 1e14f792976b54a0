"""Items as a person reads them: who, and what."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from antiphon.cli.terminal import harmless
from antiphon.protocol.call_items import is_call, is_output
from antiphon.protocol.items import (
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    FunctionCall,
    Item,
    ItemReference,
    Message,
    Reasoning,
)
from antiphon.protocol.stored_items import item_to_text, item_type
from antiphon.protocol.tool_items import AdditionalTools
from antiphon.turn.function_forms.outputs import call_output, tool_names
from antiphon.turn.transcript import call_text, kind_of_call, words

SEALED = "(sealed)"


def said(item: Item) -> tuple[str, str]:
    """Who said it, and what: `user`, `assistant`, `call NAME`, `output`, `reasoning`, …"""
    if is_call(item):
        named = item.name if isinstance(item, FunctionCall | CustomToolCall) else kind_of_call(item)
        return f"call {named}", call_text(item)
    if is_output(item):
        return "output", words(call_output(item))
    match item:
        case Message():
            return item.role, words(item.content)
        case AdditionalTools():
            return "tools", ", ".join(tool_names(item.tools))
        case Reasoning():
            return "reasoning", _thoughts(item)
        case ItemReference():
            return "reference", item.id
        case Compaction():
            return "compaction", SEALED
        case CompactionTrigger():
            return "compaction trigger", ""
        case _:
            return item_type(item), item_to_text(item)


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
