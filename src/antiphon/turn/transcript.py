"""A conversation as plain text, for a model that summarises it.

Calls and outputs become text, images and files are named but not sent. Reasoning is omitted: its results are
in the transcript.
"""

from collections.abc import Sequence
from typing import assert_never

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
    OutputOfCall,
    Reasoning,
    call_id_of,
    is_call,
    is_output,
)
from antiphon.protocol.stored_items import item_to_text, item_type
from antiphon.protocol.tool_items import AdditionalTools
from antiphon.turn.function_forms.calls import call_arguments
from antiphon.turn.function_forms.outputs import call_output, tool_names

OPAQUE_CHARACTERS = 4_000
"""The limit for an opaque item, which may contain an image."""

MIN_CUT_CHARACTERS = 1_000
"""A shorter passage is not cut."""


def transcript(items: Sequence[Item]) -> list[str]:
    """One passage per item with content, headed by its role."""
    return [passage for item in items if (passage := _passage(item))]


def shortened(passage: str) -> str | None:
    """The passage with a note in place of its middle half; None if it is too short to cut."""
    if len(passage) < MIN_CUT_CHARACTERS:
        return None
    quarter = len(passage) // 4
    return _cut(passage, quarter, quarter)


def _passage(item: Item) -> str:
    if is_call(item):
        return _called(item)
    if is_output(item):
        return _answered(item)
    match item:
        case Message():
            return f"{item.role}:\n{content_text(item.content)}"
        case AdditionalTools():
            return f"{item.role} offers tools:\n{', '.join(tool_names(item.tools))}"
        case Reasoning() | Compaction() | CompactionTrigger() | ItemReference():
            return ""
        case _:
            return f"{item_type(item)}:\n{_opaque(item)}"


def _called(call: CallItem) -> str:
    named = call.name if isinstance(call, FunctionCall | CustomToolCall) else kind_of_call(call)
    call_id = f" ({call.call_id})" if call.call_id else ""
    return f"assistant calls {named}{call_id}:\n{call_text(call)}"


def _answered(output: OutputOfCall) -> str:
    return f"output of {call_id_of(output) or item_type(output)}:\n{content_text(call_output(output))}"


def kind_of_call(call: CallItem) -> str:
    """The kind of tool that is called: ``shell`` for a ``shell_call``."""
    return item_type(call).removesuffix("_call")


def call_text(call: CallItem) -> str:
    """The arguments or the input of a call, as the model wrote them where it did."""
    if isinstance(call, FunctionCall):
        return call.arguments
    return call.input if isinstance(call, CustomToolCall) else call_arguments(call)


def content_text(content: str | Sequence[MessagePart]) -> str:
    """The content as text, with the names of images and files."""
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
    """A placeholder. A data URL is not used as a name."""
    return f"[{kind}]" if name is None or name.startswith("data:") else f"[{kind}: {name}]"


def _opaque(item: Item) -> str:
    body = item_to_text(item)
    return body if len(body) <= OPAQUE_CHARACTERS else _cut(body, OPAQUE_CHARACTERS, 0)


def _cut(text: str, head: int, tail: int) -> str:
    omitted = len(text) - head - tail
    return f"{text[:head]}\n[{omitted} characters are left out here]\n{text[len(text) - tail :]}"
