"""What every door reads out of a finished answer in the same way, so that JSON and stream agree."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from antiphon.protocol.content import OutputText, Refusal
from antiphon.protocol.items import (
    CustomToolCall,
    FunctionCall,
    Message,
    OutputItem,
    Reasoning,
)
from antiphon.protocol.response import Response
from antiphon.server.compat.api import Names

GAP = "\n\n"
"""What stands between two messages, or two parts of reasoning, where a door has one text for all."""

TOLD = (Message, Reasoning, FunctionCall, CustomToolCall)
"""The items that a chat-shaped answer has a place for."""


def message_text(item: Message) -> str:
    """The text of a message, without its refusals."""
    if isinstance(item.content, str):
        return item.content
    return "".join(part.text for part in item.content if isinstance(part, OutputText))


def refusal_text(item: Message) -> str:
    """Why the model would not answer."""
    if isinstance(item.content, str):
        return ""
    return "".join(part.refusal for part in item.content if isinstance(part, Refusal))


def thought_text(item: Reasoning) -> str:
    """What is shown of a thought: its summary, and its own words."""
    raw = [] if isinstance(item.content, UnsetType) else item.content
    return GAP.join([part.text for part in item.summary] + [part.text for part in raw])


def downgrades(response: Response, notes: Sequence[str], names: Names) -> list[str] | UnsetType:
    """All that was emulated or left out: by the door, by the engine, and of the answer."""
    engine = () if isinstance(response.downgrades, UnsetType) else response.downgrades
    known = [names.told(note) for note in engine]
    return [*notes, *known, *_untold(response.output)] or UNSET


def _untold(output: Sequence[OutputItem]) -> list[str]:
    kinds = {str(item.__struct_config__.tag): None for item in output if not isinstance(item, TOLD)}
    return [f"items of type '{kind}' have no place in this API and are not told" for kind in kinds]
