"""One item of a stream between `added` and `done`: its order, its indices, and whether it says one thing."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from antiphon.conformance.grammar import BORN_DONE, HOSTED, ROWS, WITHOUT_STATUS, Row
from antiphon.conformance.members import list_at, member, number_at, text_at
from antiphon.conformance.pattern import Pattern, after, may_end, wanted
from antiphon.conformance.violation import Aspect, Mode
from antiphon.protocol.content import JsonObject

Found = Iterator[tuple[Aspect, str]]


class Words(Struct, frozen=True):
    """Words that come in deltas: their member in `done`, which index counts them, where the item has them."""

    field: str
    place: str
    index: str = ""

    def at(self, number: int | None) -> str:
        """The path in the item."""
        return self.place.format(number)


WORDS = {
    "output_text": Words("text", "content.{}.text", "content_index"),
    "refusal": Words("refusal", "content.{}.refusal", "content_index"),
    "reasoning_text": Words("text", "content.{}.text", "content_index"),
    "reasoning_summary_text": Words("text", "summary.{}.text", "summary_index"),
    "function_call_arguments": Words("arguments", "arguments"),
    "custom_tool_call_input": Words("input", "input"),
    "mcp_call_arguments": Words("arguments", "arguments"),
    "code_interpreter_call_code": Words("code", "code"),
    "apply_patch_call_operation_diff": Words("diff", "operation.diff"),
    "shell_call_command": Words("command", "action.commands.{}", "command_index"),
}
OPENERS = {
    "content_part.added": "content_index",
    "reasoning_summary_part.added": "summary_index",
    "shell_call_command.added": "command_index",
}
"""Each opens the next part of its kind; the index counts them from 0."""

PRINTED = "shell_call_output_content"
CONTAINERS = {"content_index": "content", "summary_index": "summary", "command_index": "action.commands"}
SAME = ("id", "type", "call_id", "name", "namespace", "role")
"""What an item has from the beginning, and keeps."""
UNFINISHED = frozenset({"in_progress", "searching", "generating", "interpreting", "calling", "queued"})


class StreamedItem:
    """Takes the events of one item; every fault is told once."""

    def __init__(self, item: JsonObject, mode: Mode) -> None:
        self.item = item
        self.kind = text_at(item, "type")
        row = ROWS.get(self.kind)
        self._row = row or Row()
        self._mode: Mode = mode
        self._left: Pattern | None = self._row.order
        if mode == "lenient":
            self._left = None if row is None else row.observed or row.order
        self._opened: dict[str, int] = {}
        self._annotations: dict[int, int] = {}
        self._commands = 0
        self._printed: dict[int | None, dict[str, str]] = {}
        self._deltas: dict[tuple[str, int | None], list[str]] = {}
        self._told: dict[tuple[str, int | None], str] = {}

    def added(self) -> Found:
        """The item as it was added."""
        if not text_at(self.item, "id"):
            yield "id", f"the {self.kind or 'item'} that is added has no id"
        for path, empty in self._row.added.items():
            found: Any = member(self.item, path)
            if found is not None and not any(found == value for value in empty):
                yield "added", f"{self.kind}: `{path}` is not empty yet when the item is added"
        status = self.item.get("status")
        if status is None:
            if self._mode == "strict" or self.kind not in WITHOUT_STATUS:
                yield "added", f"the {self.kind} that is added has no status"
        elif status != "in_progress" and self.kind not in BORN_DONE:
            yield "added", f"the {self.kind} is added with the status {status!r}"

    def take(self, kind: str, event: JsonObject) -> Found:
        """An event that belongs to the item."""
        yield from self._in_order(kind)
        if not kind.startswith("shell_call_command.") and event.get("item_id") != self.item.get("id"):
            yield "id", f"{kind} names the item {event.get('item_id')!r}, which is {self.item.get('id')!r}"
        yield from self._counted(kind, event)
        stem, _, step = kind.rpartition(".")
        if stem in WORDS and step == "delta":
            self._deltas.setdefault(self._key(stem, event), []).append(text_at(event, "delta"))
        elif stem in WORDS and step == "done":
            yield from self._whole(stem, event)
        elif stem == PRINTED:
            yield from self._print(step, event)
        elif kind in ("content_part.done", "reasoning_summary_part.done"):
            yield from self._part_whole(kind, event)

    def done(self, item: JsonObject) -> Found:
        """The item as it is at its end."""
        cut_off = self.kind in HOSTED and item.get("status") == "incomplete"
        if self._left is not None and not may_end(self._left) and not cut_off:
            yield "order", f"{self.kind} is done, but {_listed(wanted(self._left))} did not come"
        for name in SAME:
            if self.item.get(name) != item.get(name):
                aspect: Aspect = "id" if name in ("id", "call_id") else "added"
                yield aspect, f"`{name}` was {self.item.get(name)!r}, at the end it is {item.get(name)!r}"
        status = item.get("status")
        if status in UNFINISHED and member(item, "caller.type") != "program":
            yield "order", f"the {self.kind} that is done has the status {status!r}"
        for (stem, number), said in self._told.items():
            place = WORDS[stem].at(number)
            if text_at(item, place) != said:
                yield "fold", f"{stem}.done said {_short(said)}, `{place}` is {_short(member(item, place))}"
        yield from self._all_parts(item)
        yield from self._all_annotations(item)

    def _in_order(self, kind: str) -> Found:
        if self._left is None:
            return
        rest = after(self._left, kind)
        if rest is None:
            hope = _listed(wanted(self._left)) or "output_item.done"
            yield "order", f"{kind} in a {self.kind}, where {hope} should come"
        self._left = rest

    def _counted(self, kind: str, event: JsonObject) -> Found:
        """Indices of parts: each is the next one, and what is inside belongs to the part that is open."""
        if (opened := OPENERS.get(kind)) is not None:
            expected = self._opened.get(opened, -1) + 1
            self._opened[opened] = expected
            if number_at(event, opened) != expected:
                yield "index", f"{kind} has the {opened} {event.get(opened)!r}, not {expected}"
            return
        if kind == "output_text.annotation.added":
            part = self._opened.get("content_index", 0)
            expected = self._annotations.get(part, 0)
            self._annotations[part] = expected + 1
            if number_at(event, "annotation_index") != expected:
                yield "index", f"annotation_index is {event.get('annotation_index')!r}, not {expected}"
        for name, expected in self._opened.items():
            if name in event and number_at(event, name) != expected:
                yield "index", f"{kind} has the {name} {event.get(name)!r}, but {expected} is open"
        stem = kind.rpartition(".")[0]
        if stem in WORDS and (name := WORDS[stem].index) and number_at(event, name) is None:
            yield "index", f"{kind} has no {name}"

    def _whole(self, stem: str, event: JsonObject) -> Found:
        key = self._key(stem, event)
        said, whole = "".join(self._deltas.get(key, [])), text_at(event, WORDS[stem].field)
        self._told[key] = whole
        if said != whole:
            yield "fold", f"the deltas of {stem} are {_short(said)}, its done says {_short(whole)}"

    def _print(self, step: str, event: JsonObject) -> Found:
        """What a command printed, in pieces and whole."""
        number = number_at(event, "command_index")
        if step == "done":
            self._commands += 1
            if number != self._commands - 1:
                yield "index", f"command_index is {event.get('command_index')!r}, not {self._commands - 1}"
        printed = self._printed.setdefault(number, {"stdout": "", "stderr": ""})
        for name, said in printed.items():
            if step == "delta":
                printed[name] = said + text_at(event, f"delta.{name}")
            elif said != (whole := "".join(text_at(output, name) for output in list_at(event, "output"))):
                yield "fold", f"the deltas of {name} are {_short(said)}, their done says {_short(whole)}"

    def _part_whole(self, kind: str, event: JsonObject) -> Found:
        index = "content_index" if kind == "content_part.done" else "summary_index"
        number = number_at(event, index)
        for (stem, at), said in self._told.items():
            words = WORDS[stem]
            if words.index == index and at == number and text_at(event, f"part.{words.field}") != said:
                part = member(event, f"part.{words.field}")
                yield "fold", f"{stem}.done said {_short(said)}, {kind} has {_short(part)}"

    def _all_parts(self, item: JsonObject) -> Found:
        """As many parts as were added, and no words that nobody heard."""
        for index, place in CONTAINERS.items():
            parts = member(item, place)
            expected = self._opened.get(index, -1) + 1
            if isinstance(parts, list) and self._follows(place) and len(parts) != expected:  # pyright: ignore[reportUnknownArgumentType]
                yield "fold", f"{expected} parts of `{place}` were added, the {self.kind} has {len(parts)}"  # pyright: ignore[reportUnknownArgumentType]
        for (stem, number), pieces in self._deltas.items():
            place, said = WORDS[stem].at(number), "".join(pieces)
            if (stem, number) not in self._told and text_at(item, place) != said:
                yield (
                    "fold",
                    f"the deltas of {stem} are {_short(said)}, `{place}` is {_short(member(item, place))}",
                )

    def _all_annotations(self, item: JsonObject) -> Found:
        """As many as were added; other servers may tell them at the end alone."""
        for number, part in enumerate(list_at(item, "content")):
            told, found = self._annotations.get(number, 0), len(list_at(part, "annotations"))
            if told != found and (told or self._mode == "strict"):
                yield "fold", f"{told} annotations were added, `content.{number}` has {found}"

    def _follows(self, place: str) -> bool:
        """Whether parts at this place are told by events of their own."""
        return (
            self.kind in ("message", "reasoning") if place != "action.commands" else self.kind == "shell_call"
        )

    def _key(self, stem: str, event: JsonObject) -> tuple[str, int | None]:
        index = WORDS[stem].index
        return stem, number_at(event, index) if index else None


def _listed(kinds: list[str]) -> str:
    return " or ".join(kinds)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:40]}…{shown[-15:]}"
