"""Searches of files as calls of a function: what was asked, and the passages that were found, numbered.

The numbers are those that the model cites. They count all passages of the conversation, in order, so that
they stay the same from turn to turn, whoever sent the results: the store, or a client that keeps the items.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item
from antiphon.protocol.stored_items import item_id
from antiphon.protocol.tool_items import FileSearchCall

BYTES_PER_TOKEN = 4
DEFAULT_RESULT_TOKENS = 48_000
SOURCE = "antiphon"
"""The member of a result, and of a citation, that names the place of the passage in its vector store."""
ERROR = "error"
"""The only member of a result on the private side of a failed search: why it failed."""

_HEAD = (
    "Passages of the user's files. If a sentence of your answer relies on a passage, end it with the number "
    "of the passage in square brackets, after a space, like this: [{}]."
)
_HEAD_START = _HEAD.partition("{")[0]
_NOTHING = "The search found nothing. Try other words, or say that the files do not contain it."
_LOST = "The passages that this search found are not available any more. Search again if you need them."
_TOO_OLD = "The passages that this search found are left out, because newer ones need the room."


class Sources(NamedTuple):
    """The passages that a model can cite: number 1 is the first one."""

    results: tuple[JsonObject, ...] = ()

    def cited(self, number: int) -> JsonObject | None:
        """The passage with this number."""
        return self.results[number - 1] if 0 < number <= len(self.results) else None


class FileSearches:
    """Shows the searches of one conversation, and numbers their passages."""

    def __init__(self, max_tokens: int) -> None:
        self._room_bytes = max_tokens * BYTES_PER_TOKEN
        self._outputs: list[int] = []
        """Positions of the outputs that hold passages."""
        self.results: list[JsonObject] = []

    def show(self, item: FileSearchCall, name: str, position: int) -> tuple[FunctionCall, FunctionCallOutput]:
        """A search as a call and its output; `position` is that of the call among the shown items."""
        call_id = item_id(item) or f"call_file_search_{position}"
        arguments = msgspec.json.encode({"queries": item.queries}).decode()
        call = FunctionCall(call_id=call_id, name=name, arguments=arguments)
        return call, FunctionCallOutput(call_id=call_id, output=self._output(item, position + 1))

    def limit(self, items: list[Item]) -> None:
        """Leave out the oldest passages, if all together are too long for the budget."""
        room = self._room_bytes
        for position in reversed(self._outputs):
            output = items[position]
            if isinstance(output, FunctionCallOutput) and isinstance(output.output, str):
                room -= len(output.output.encode())
                if room < 0:
                    items[position] = msgspec.structs.replace(output, output=_TOO_OLD)

    def _output(self, item: FileSearchCall, position: int) -> str:
        if not isinstance(item.results, list):
            return _LOST
        if not item.results:
            return _NOTHING
        if ERROR in item.results[0]:
            return f"The search failed: {item.results[0][ERROR]}"
        return passages_text(item.results, self.number(item.results, position))

    def number(self, results: Sequence[JsonObject], position: int) -> int:
        """Number passages that the output at this position shows; the number of the first one."""
        first = len(self.results) + 1
        self.results += results
        self._outputs.append(position)
        return first


def found_here(item: FileSearchCall) -> bool:
    """Whether the results come from a vector store of this server."""
    return isinstance(item.results, list) and any(SOURCE in result for result in item.results)


def has_passages(item: Item) -> bool:
    """Whether an item is the output of a search that shows passages."""
    return (
        isinstance(item, FunctionCallOutput)
        and isinstance(item.output, str)
        and item.output.startswith(_HEAD_START)
    )


def passages_text(results: Sequence[JsonObject], first: int) -> str:
    """The passages as the model reads them; the first one has the number `first`."""
    shown = (_passage(result, number) for number, result in enumerate(results, first))
    return "\n\n".join([_HEAD.format(first), *shown])


def _passage(result: JsonObject, number: int) -> str:
    place = result.get(SOURCE)
    label = place.get("label") if isinstance(place, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- JSON
    name = result.get("filename") or result.get("file_id") or "file"
    return f"[{number}] {name}{f', {label}' if label else ''}\n{result.get('text') or ''}"
