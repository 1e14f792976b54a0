"""The text of items, and items without a place, for all compatible APIs: JSON answers and streams agree."""

from collections.abc import Sequence

from msgspec import UnsetType

from antiphon.protocol.content import OutputText, Refusal
from antiphon.protocol.downgrade import Downgrade, Downgrades
from antiphon.protocol.items import Message, OutputItem, Reasoning

BLANK_LINE = "\n\n"
"""Separates two messages, or two parts of reasoning, where an API has one text for all."""


def message_text(item: Message) -> str:
    """The text of a message, without its refusals."""
    if isinstance(item.content, str):
        return item.content
    return "".join(part.text for part in item.content if isinstance(part, OutputText))


def refusal_text(item: Message) -> str:
    """The refusals of a message."""
    if isinstance(item.content, str):
        return ""
    return "".join(part.refusal for part in item.content if isinstance(part, Refusal))


def reasoning_text(item: Reasoning) -> str:
    """The summary of reasoning, and its raw text."""
    raw = [] if isinstance(item.content, UnsetType) else item.content
    return BLANK_LINE.join([part.text for part in item.summary] + [part.text for part in raw])


def omitted_items(output: Sequence[OutputItem], rendered: tuple[type[OutputItem], ...]) -> list[Downgrade]:
    """The downgrades for items that an answer has no place for. `rendered`: the types that it has one for."""
    found = Downgrades()
    for item in output:
        if not isinstance(item, rendered):
            text = f"items of type '{item.__struct_config__.tag}' have no place in this API and are left out"
            found.add("output_omitted", text)
    return found
