"""The order rules of the protocol, for any stream of events.

    created, [queued,] in_progress,
    items, sequentially: output_item.added, the events of the table, output_item.done
    [error,] exactly one of completed, incomplete, failed

`sequence_number` counts from 0 without a gap, `output_index` is the position in the final output, the id of
an item does not change, deltas add up to the text of `done`, and the output of the terminal event is the list
of items in `output_item.done`.
"""

from collections.abc import Sequence
from typing import Any

from antiphon.conformance.grammar import ENVELOPE, KINDS, OPENING, STATUSES, TERMINAL
from antiphon.conformance.items import Aspect, Mode, StreamedItem, Violation
from antiphon.conformance.pattern import Pattern, after, may_end, wanted
from antiphon.conformance.reading import list_at, member, number_at, object_at, text_at
from antiphon.protocol.content import JsonObject

KEEPALIVE = "keepalive"
ALIASES = {"reasoning.delta": "reasoning_text.delta", "reasoning.done": "reasoning_text.done"}
"""Names of Open Responses for events that OpenAI names differently; both are accepted from other servers."""
RESEALED = ("encrypted_content", "fingerprint")
"""Members that servers encrypt again each time, so that they may differ."""


def check_stream(events: Sequence[JsonObject], mode: Mode = "strict") -> list[Violation]:
    """All violations of a complete stream, in the order of its events."""
    checker = _StreamChecker(mode)
    for event in events:
        checker.check(event)
    checker.end()
    return checker.violations


def kind_of(event: JsonObject) -> str:
    """The type of an event without `response.`."""
    return text_at(event, "type").removeprefix("response.")


class _StreamChecker:
    """Checks a stream event by event."""

    def __init__(self, mode: Mode) -> None:
        self.violations: list[Violation] = []
        self._mode: Mode = mode
        self._at = -1
        self._numbered = True
        self._opening: Pattern | None = OPENING
        self._response_id: object = None
        self._open: dict[int, StreamedItem] = {}
        self._next = 0
        self._done: dict[int, JsonObject] = {}
        self._fault = False
        self._terminal: str | None = None

    def check(self, event: JsonObject) -> None:
        self._at += 1
        self._check_number(event)
        kind = kind_of(event)
        if self._mode == "lenient":
            kind = ALIASES.get(kind, kind)
        if kind == KEEPALIVE:
            return
        if self._terminal is not None:
            self._report("envelope", f"{kind} after the {self._terminal} that ends the stream")
        if kind not in KINDS:
            if self._mode == "strict":
                self._report("order", f"{kind or 'an event without a type'} is not an event of the protocol")
            return
        self._check_opening(kind)
        if kind in ENVELOPE:
            self._check_envelope(kind, event)
        elif kind == "output_item.added":
            self._check_item_added(event)
        elif kind == "output_item.done":
            self._check_item_done(event)
        else:
            self._check_inside(kind, event)

    def end(self) -> None:
        """Check that the stream is complete."""
        if self._terminal is None:
            self._report("envelope", "the stream has no completed, incomplete or failed")
        if self._at < 0:
            self._report("envelope", "the stream has no events")

    def _check_number(self, event: JsonObject) -> None:
        found = number_at(event, "sequence_number")
        if found != self._at and self._numbered:
            self._numbered = False  # reported once: all later numbers are shifted as well
            self._report("numbering", f"sequence_number is {event.get('sequence_number')!r}, not {self._at}")

    def _check_opening(self, kind: str) -> None:
        if self._opening is None or (may_end(self._opening) and not wanted(self._opening)):
            if self._opening is not None and kind in ("created", "queued", "in_progress"):
                self._report("envelope", f"{kind} is repeated")
            return
        rest = after(self._opening, kind)
        if (rest is None and not (kind in TERMINAL or kind == "error")) or (rest is None and self._at == 0):
            self._report("envelope", f"{kind} where {' or '.join(wanted(self._opening))} is expected")
        self._opening = rest

    def _check_envelope(self, kind: str, event: JsonObject) -> None:
        if kind == "error":
            self._fault = True
            if not isinstance(event.get("error"), dict):
                self._report("envelope", "the members of error must be in `error`")
            return
        response = object_at(event, "response")
        if self._response_id is None:
            self._response_id = response.get("id")
        if not text_at(response, "id"):
            self._report("id", f"the response of {kind} has no id")
        elif response.get("id") != self._response_id:
            self._report(
                "id", f"the id of the response was {self._response_id!r}, now {response.get('id')!r}"
            )
        if response.get("status") not in STATUSES[kind]:
            self._report("envelope", f"the response of {kind} has the status {response.get('status')!r}")
        if kind in TERMINAL:
            self._check_terminal(kind, response)
        elif response.get("output") not in ([], None):
            self._report("envelope", f"the response of {kind} already has output")
        elif self._fault:
            self._report("envelope", f"{kind} after error")

    def _check_terminal(self, kind: str, response: JsonObject) -> None:
        self._terminal = kind
        if self._fault and kind != "failed":
            self._report("envelope", f"{kind} after error, where failed is expected")
        for index, item in self._open.items():
            self._report("order", f"item {index} ({item.kind}) is never done")
        done = [self._done[index] for index in sorted(self._done)]
        output = list_at(response, "output")
        if self._compared(output) != self._compared(done):
            self._report("fold", f"the output of {kind} is not the list of items that were done")
        self._check_ids(done)
        self._check_incomplete(kind, done)

    def _compared(self, items: list[JsonObject]) -> list[JsonObject]:
        if self._mode == "strict":
            return items
        return [{name: value for name, value in item.items() if name not in RESEALED} for item in items]

    def _check_ids(self, items: list[JsonObject]) -> None:
        for name in ("id", "call_id"):
            found = [
                (item.get("type") if name == "call_id" else "", item[name])
                for item in items
                if item.get(name)
            ]
            if len(set(map(repr, found))) != len(found):
                self._report("id", f"two items of the output have the same {name}")

    def _check_incomplete(self, kind: str, items: list[JsonObject]) -> None:
        cut = [position for position, item in enumerate(items) if item.get("status") == "incomplete"]
        if cut and kind == "completed":
            self._report("incomplete", f"item {cut[0]} is incomplete, but the response is completed")
        if cut and cut[0] != len(items) - 1:
            self._report("incomplete", f"item {cut[0]} is incomplete, but it is not the last")

    def _check_item_added(self, event: JsonObject) -> None:
        index = number_at(event, "output_index")
        if index != self._next:
            self._report("index", f"output_index is {event.get('output_index')!r}, not {self._next}")
        for other, item in self._open.items():
            self._report("order", f"an item is added while item {other} ({item.kind}) is open")
        item = StreamedItem(object_at(event, "item"), self._mode)
        self._open[self._next] = item
        self._next += 1
        for aspect, message in item.added():
            self._report(aspect, message)

    def _check_item_done(self, event: JsonObject) -> None:
        index = self._owner(event)
        if index is None:
            self._report(
                "order", f"output_item.done for item {event.get('output_index')!r}, which is not open"
            )
            return
        item = object_at(event, "item")
        for aspect, message in self._open.pop(index).done(item):
            self._report(aspect, message)
        self._done[index] = item

    def _check_inside(self, kind: str, event: JsonObject) -> None:
        index = self._owner(event)
        if index is None:
            self._report("order", f"{kind} without an item that is open")
            return
        for aspect, message in self._open[index].event(kind, event):
            self._report(aspect, message)

    def _owner(self, event: JsonObject) -> int | None:
        """The open item of an event: by its index, else by its id, else the only one."""
        index = number_at(event, "output_index")
        if index in self._open:
            return index
        name: Any = event.get("item_id", member(event, "item.id"))
        for number, item in self._open.items():
            if item.item.get("id") == name or len(self._open) == 1:
                self._report(
                    "index", f"output_index is {event.get('output_index')!r}, but item {number} is open"
                )
                return number
        return None

    def _report(self, aspect: Aspect, message: str) -> None:
        self.violations.append(Violation(aspect, self._at, message))
