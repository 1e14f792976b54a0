"""Checks one item of a stream between `added` and `done`: order, indices, ids, and that deltas add up."""

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from antiphon.conformance.grammar import ADDED_COMPLETE, HOSTED, ROWS, WITHOUT_STATUS, Row
from antiphon.conformance.pattern import Pattern, after, may_end, wanted
from antiphon.conformance.reading import list_at, member, number_at, text_at
from antiphon.protocol.content import JsonObject

Mode = Literal["strict", "lenient"]
"""`strict` is for our own streams. `lenient` is for other servers: events and item types that are not in the
table are ignored, and events that real servers omit without harm to clients may be missing."""

Aspect = Literal["envelope", "order", "added", "numbering", "index", "id", "fold", "incomplete"]
"""The rule that is broken: the first and last events; the order between them; the item in `added`;
`sequence_number`; other indices; ids; that deltas, `done` and the final response agree; that an incomplete
item is the last item of an incomplete response."""


class Violation(Struct, frozen=True):
    """A rule that an event breaks; `at` is the position of the event in the stream."""

    aspect: Aspect
    at: int
    message: str

    def __str__(self) -> str:
        return f"event {self.at}: {self.message}"


Found = Iterator[tuple[Aspect, str]]


class DeltaField(Struct, frozen=True):
    """Text that is sent in deltas: its member in `done`, its path in the item, and its index."""

    field: str
    path: str
    index: str = ""

    def at(self, number: int | None) -> str:
        """The path in the item for this index."""
        return self.path.format(number)


DELTA_FIELDS = {
    "output_text": DeltaField("text", "content.{}.text", "content_index"),
    "refusal": DeltaField("refusal", "content.{}.refusal", "content_index"),
    "reasoning_text": DeltaField("text", "content.{}.text", "content_index"),
    "reasoning_summary_text": DeltaField("text", "summary.{}.text", "summary_index"),
    "function_call_arguments": DeltaField("arguments", "arguments"),
    "custom_tool_call_input": DeltaField("input", "input"),
    "mcp_call_arguments": DeltaField("arguments", "arguments"),
    "code_interpreter_call_code": DeltaField("code", "code"),
    "apply_patch_call_operation_diff": DeltaField("diff", "operation.diff"),
    "shell_call_command": DeltaField("command", "action.commands.{}", "command_index"),
}
PART_OPENERS = {
    "content_part.added": "content_index",
    "reasoning_summary_part.added": "summary_index",
    "shell_call_command.added": "command_index",
}
"""Each event opens the next part; the index counts the parts from 0."""

SHELL_OUTPUT = "shell_call_output_content"
CONTAINERS = {"content_index": "content", "summary_index": "summary", "command_index": "action.commands"}
CONSTANT_MEMBERS = ("id", "type", "call_id", "name", "namespace", "role")
"""Members that are the same in `added` and `done`."""
UNFINISHED = frozenset({"in_progress", "searching", "generating", "interpreting", "calling", "queued"})


class StreamedItem:
    """Checks the events of one item. Each method yields the violations that it finds."""

    def __init__(self, item: JsonObject, mode: Mode) -> None:
        self.item = item
        self.kind = text_at(item, "type")
        row = ROWS.get(self.kind)
        self._row = row or Row()
        self._mode: Mode = mode
        self._expected: Pattern | None = self._row.order
        if mode == "lenient":
            self._expected = None if row is None else row.observed or row.order
        self._opened: dict[str, int] = {}
        self._annotations: dict[int, int] = {}
        self._commands = 0
        self._printed: dict[int | None, dict[str, str]] = {}
        self._deltas: dict[tuple[str, int | None], list[str]] = {}
        self._done_texts: dict[tuple[str, int | None], str] = {}

    def added(self) -> Found:
        """Check the item in `output_item.added`."""
        if not text_at(self.item, "id"):
            yield "id", f"the {self.kind or 'item'} that is added has no id"
        for path, empty in self._row.added.items():
            found: Any = member(self.item, path)
            if found is not None and not any(found == value for value in empty):
                yield "added", f"{self.kind}: `{path}` must be empty in output_item.added"
        status = self.item.get("status")
        if status is None:
            if self._mode == "strict" or self.kind not in WITHOUT_STATUS:
                yield "added", f"the {self.kind} that is added has no status"
        elif status != "in_progress" and self.kind not in ADDED_COMPLETE:
            yield "added", f"the {self.kind} is added with the status {status!r}"

    def event(self, kind: str, event: JsonObject) -> Found:
        """Check an event between `added` and `done`."""
        yield from self._in_order(kind)
        if not kind.startswith("shell_call_command.") and event.get("item_id") != self.item.get("id"):
            yield "id", f"{kind} names the item {event.get('item_id')!r}, which is {self.item.get('id')!r}"
        yield from self._counted(kind, event)
        stem, _, step = kind.rpartition(".")
        if stem in DELTA_FIELDS and step == "delta":
            self._deltas.setdefault(self._key(stem, event), []).append(text_at(event, "delta"))
        elif stem in DELTA_FIELDS and step == "done":
            yield from self._text_done(stem, event)
        elif stem == SHELL_OUTPUT:
            yield from self._shell_output(step, event)
        elif kind in ("content_part.done", "reasoning_summary_part.done"):
            yield from self._part_done(kind, event)

    def done(self, item: JsonObject) -> Found:
        """Check the item in `output_item.done`."""
        cut_off = self.kind in HOSTED and item.get("status") == "incomplete"
        if self._expected is not None and not may_end(self._expected) and not cut_off:
            yield "order", f"{self.kind} is done without {_listed(wanted(self._expected))}"
        for name in CONSTANT_MEMBERS:
            if self.item.get(name) != item.get(name):
                aspect: Aspect = "id" if name in ("id", "call_id") else "added"
                yield aspect, f"`{name}` is {self.item.get(name)!r} in added and {item.get(name)!r} in done"
        status = item.get("status")
        if status in UNFINISHED and member(item, "caller.type") != "program":
            yield "order", f"the {self.kind} that is done has the status {status!r}"
        for (stem, number), text in self._done_texts.items():
            path = DELTA_FIELDS[stem].at(number)
            if text_at(item, path) != text:
                yield "fold", f"{stem}.done has {_short(text)}, `{path}` is {_short(member(item, path))}"
        yield from self._all_parts(item)
        yield from self._all_annotations(item)

    def _in_order(self, kind: str) -> Found:
        if self._expected is None:
            return
        rest = after(self._expected, kind)
        if rest is None:
            expected = _listed(wanted(self._expected)) or "output_item.done"
            yield "order", f"{kind} in a {self.kind}, where {expected} is expected"
        self._expected = rest

    def _counted(self, kind: str, event: JsonObject) -> Found:
        """Check indices: a new part has the next index, other events have the index of the open part."""
        if (opened := PART_OPENERS.get(kind)) is not None:
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
        if stem in DELTA_FIELDS and (name := DELTA_FIELDS[stem].index) and number_at(event, name) is None:
            yield "index", f"{kind} has no {name}"

    def _text_done(self, stem: str, event: JsonObject) -> Found:
        key = self._key(stem, event)
        deltas, text = "".join(self._deltas.get(key, [])), text_at(event, DELTA_FIELDS[stem].field)
        self._done_texts[key] = text
        if deltas != text:
            yield "fold", f"the deltas of {stem} are {_short(deltas)}, {stem}.done has {_short(text)}"

    def _shell_output(self, step: str, event: JsonObject) -> Found:
        """Check the output of a command: its deltas and its `done`."""
        number = number_at(event, "command_index")
        if step == "done":
            self._commands += 1
            if number != self._commands - 1:
                yield "index", f"command_index is {event.get('command_index')!r}, not {self._commands - 1}"
        streams = self._printed.setdefault(number, {"stdout": "", "stderr": ""})
        for name, deltas in streams.items():
            if step == "delta":
                streams[name] = deltas + text_at(event, f"delta.{name}")
            elif deltas != (text := "".join(text_at(output, name) for output in list_at(event, "output"))):
                yield "fold", f"the deltas of {name} are {_short(deltas)}, done has {_short(text)}"

    def _part_done(self, kind: str, event: JsonObject) -> Found:
        index = "content_index" if kind == "content_part.done" else "summary_index"
        number = number_at(event, index)
        for (stem, at), text in self._done_texts.items():
            field = DELTA_FIELDS[stem]
            if field.index == index and at == number and text_at(event, f"part.{field.field}") != text:
                part = member(event, f"part.{field.field}")
                yield "fold", f"{stem}.done has {_short(text)}, {kind} has {_short(part)}"

    def _all_parts(self, item: JsonObject) -> Found:
        """Check that the item has the parts that were added, and the text of the deltas."""
        for index, path in CONTAINERS.items():
            parts = member(item, path)
            expected = self._opened.get(index, -1) + 1
            if isinstance(parts, list) and self._streams_parts(path) and len(parts) != expected:  # pyright: ignore[reportUnknownArgumentType]
                yield "fold", f"{expected} parts of `{path}` were added, the {self.kind} has {len(parts)}"  # pyright: ignore[reportUnknownArgumentType]
        for (stem, number), pieces in self._deltas.items():
            path, deltas = DELTA_FIELDS[stem].at(number), "".join(pieces)
            if (stem, number) not in self._done_texts and text_at(item, path) != deltas:
                yield (
                    "fold",
                    f"the deltas of {stem} are {_short(deltas)}, `{path}` is {_short(member(item, path))}",
                )

    def _all_annotations(self, item: JsonObject) -> Found:
        """Check that the item has the annotations that were added. Others may send them in `done` only."""
        for number, part in enumerate(list_at(item, "content")):
            added, found = self._annotations.get(number, 0), len(list_at(part, "annotations"))
            if added != found and (added or self._mode == "strict"):
                yield "fold", f"{added} annotations were added, `content.{number}` has {found}"

    def _streams_parts(self, path: str) -> bool:
        """Whether the parts at this path have events of their own."""
        return (
            self.kind in ("message", "reasoning") if path != "action.commands" else self.kind == "shell_call"
        )

    def _key(self, stem: str, event: JsonObject) -> tuple[str, int | None]:
        index = DELTA_FIELDS[stem].index
        return stem, number_at(event, index) if index else None


def _listed(kinds: list[str]) -> str:
    return " or ".join(kinds)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:40]}…{shown[-15:]}"
