"""A conversation as plain text, for a model that is to read about it rather than take part in it.

Calls and outputs become words, images and files are named but not sent. Reasoning is left out: it led to
what was said and done, and that is there.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

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
)

OPAQUE_CHARACTERS = 4_000
"""As much of an item that we do not understand: some of them hold whole images."""

SHORTEST_CUT = 1_000
"""A passage of fewer characters is not cut."""


def transcript(items: Sequence[Item]) -> list[str]:
    """One passage for each item that says something, headed by whose it is."""
    return [passage for item in items if (passage := _passage(item))]


def shortened(passage: str) -> str | None:
    """The passage without its middle half, which is marked; None if it is short already."""
    if len(passage) < SHORTEST_CUT:
        return None
    quarter = len(passage) // 4
    return _cut(passage, quarter, quarter)


def _passage(item: Item) -> str:
    match item:
        case Message():
            return f"{item.role}:\n{words(item.content)}"
        case FunctionCall():
            return f"assistant calls {item.name} ({item.call_id}):\n{item.arguments}"
        case CustomToolCall():
            return f"assistant calls {item.name} ({item.call_id}):\n{item.input}"
        case FunctionCallOutput() | CustomToolCallOutput():
            return f"output of {item.call_id}:\n{words(item.output)}"
        case OpaqueItem():
            return f"{item.type}:\n{_opaque(item)}"
        case Reasoning() | Compaction() | CompactionTrigger() | ItemReference():
            return ""
        case _:
            assert_never(item)


def words(content: str | Sequence[MessagePart]) -> str:
    """A content as text: images and files by their names only."""
    return content if isinstance(content, str) else "\n".join(_part(part) for part in content)


def _part(part: MessagePart) -> str:
    match part:
        case InputText() | OutputText():
            return part.text
        case Refusal():
            return part.refusal
        case InputImage():
            return _named("image", part.image_url or part.file_id)
        case InputFile():
            return _named("file", part.filename or part.file_url or part.file_id)
        case InputAudio():
            return "[sound]"
        case _:
            assert_never(part)


def _named(kind: str, name: str | None) -> str:
    """What stood there. Data in the place of a name is not a name."""
    return f"[{kind}]" if name is None or name.startswith("data:") else f"[{kind}: {name}]"


def _opaque(item: OpaqueItem) -> str:
    body = msgspec.json.encode(item.body).decode()
    return body if len(body) <= OPAQUE_CHARACTERS else _cut(body, OPAQUE_CHARACTERS, 0)


def _cut(text: str, head: int, tail: int) -> str:
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[{left_out} characters are left out here]\n{text[len(text) - tail :]}"
