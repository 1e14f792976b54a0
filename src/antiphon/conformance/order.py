"""The order rules of the protocol, for any stream of events, whatever made it.

    created, [queued,] in_progress,
    items, one after another: output_item.added, what the table says, output_item.done
    [error,] exactly one of completed, incomplete, failed

`sequence_number` counts from 0 without a gap, `output_index` is the place in the final output, an item keeps
its id, deltas add up to what `done` says, and the output of the last event is the list of items that were
done.
"""

from collections.abc import Sequence
from typing import Any

from antiphon.conformance.grammar import ENVELOPE, KINDS, OPENING, STATUSES, TERMINAL
from antiphon.conformance.members import list_at, member, number_at, object_at, text_at
from antiphon.conformance.pattern import Pattern, after, may_end, wanted
from antiphon.conformance.streamed import StreamedItem
from antiphon.conformance.violation import Aspect, Mode, Violation
from antiphon.protocol.content import JsonObject

KEEPALIVE = "keepalive"
ALIASES = {"reasoning.delta": "reasoning_text.delta", "reasoning.done": "reasoning_text.done"}
"""What Open Responses calls events that OpenAI calls otherwise; either is right for others."""
RESEALED = ("encrypted_content", "fingerprint")
"""Members that servers seal anew every time: equal ones are not wanted from others."""


def check_stream(events: Sequence[JsonObject], mode: Mode = "strict") -> list[Violation]:
    """Everything that is wrong with a whole stream, in its order."""
    reading = _Reading(mode)
    for event in events:
        reading.take(event)
    reading.end()
    return reading.violations


def kind_of(event: JsonObject) -> str:
    """The type of an event without `response.`."""
    return text_at(event, "type").removeprefix("response.")


class _Reading:
    """What was heard of a stream so far."""

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

    def take(self, event: JsonObject) -> None:
        """The next event."""
        self._at += 1
        self._check_number(event)
        kind = kind_of(event)
        if self._mode == "lenient":
            kind = ALIASES.get(kind, kind)
        if kind == KEEPALIVE:
            return
        if self._terminal is not None:
            self._say("envelope", f"{kind} after the {self._terminal} that ends the stream")
        if kind not in KINDS:
            if self._mode == "strict":
                self._say("order", f"{kind or 'an event without a type'} is not an event of the protocol")
            return
        self._check_opening(kind)
        if kind in ENVELOPE:
            self._take_envelope(kind, event)
        elif kind == "output_item.added":
            self._take_added(event)
        elif kind == "output_item.done":
            self._take_done(event)
        else:
            self._take_inside(kind, event)

    def end(self) -> None:
        """Nothing more will come."""
        if self._terminal is None:
            self._say("envelope", "the stream has no completed, incomplete or failed")
        if self._at < 0:
            self._say("envelope", "the stream has no events")

    def _check_number(self, event: JsonObject) -> None:
        found = number_at(event, "sequence_number")
        if found != self._at and self._numbered:
            self._numbered = False  # one slip moves all that follow: told once
            self._say("numbering", f"sequence_number is {event.get('sequence_number')!r}, not {self._at}")

    def _check_opening(self, kind: str) -> None:
        if self._opening is None or (may_end(self._opening) and not wanted(self._opening)):
            if self._opening is not None and kind in ("created", "queued", "in_progress"):
                self._say("envelope", f"{kind} comes again")
            return
        rest = after(self._opening, kind)
        if (rest is None and not (kind in TERMINAL or kind == "error")) or (rest is None and self._at == 0):
            self._say("envelope", f"{kind} where {' or '.join(wanted(self._opening))} should come")
        self._opening = rest

    def _take_envelope(self, kind: str, event: JsonObject) -> None:
        if kind == "error":
            self._fault = True
            if not isinstance(event.get("error"), dict):
                self._say("envelope", "error is flat: its members belong into `error`")
            return
        response = object_at(event, "response")
        if self._response_id is None:
            self._response_id = response.get("id")
        if not text_at(response, "id"):
            self._say("id", f"the response of {kind} has no id")
        elif response.get("id") != self._response_id:
            self._say("id", f"the id of the response was {self._response_id!r}, now {response.get('id')!r}")
        if response.get("status") not in STATUSES[kind]:
            self._say("envelope", f"the response of {kind} has the status {response.get('status')!r}")
        if kind in TERMINAL:
            self._take_terminal(kind, response)
        elif response.get("output") not in ([], None):
            self._say("envelope", f"the response of {kind} has output already")
        elif self._fault:
            self._say("envelope", f"{kind} after error")

    def _take_terminal(self, kind: str, response: JsonObject) -> None:
        self._terminal = kind
        if self._fault and kind != "failed":
            self._say("envelope", f"{kind} after error, where failed should come")
        for index, item in self._open.items():
            self._say("order", f"item {index} ({item.kind}) is never done")
        done = [self._done[index] for index in sorted(self._done)]
        output = list_at(response, "output")
        if self._compared(output) != self._compared(done):
            self._say("fold", f"the output of {kind} is not the list of items that were done")
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
                self._say("id", f"two items of the output have the same {name}")

    def _check_incomplete(self, kind: str, items: list[JsonObject]) -> None:
        cut = [position for position, item in enumerate(items) if item.get("status") == "incomplete"]
        if cut and kind == "completed":
            self._say("incomplete", f"item {cut[0]} is incomplete, but the response is completed")
        if cut and cut[0] != len(items) - 1:
            self._say("incomplete", f"item {cut[0]} is incomplete, but it is not the last")

    def _take_added(self, event: JsonObject) -> None:
        index = number_at(event, "output_index")
        if index != self._next:
            self._say("index", f"output_index is {event.get('output_index')!r}, not {self._next}")
        for other, item in self._open.items():
            self._say("order", f"an item is added while item {other} ({item.kind}) is open")
        item = StreamedItem(object_at(event, "item"), self._mode)
        self._open[self._next] = item
        self._next += 1
        for aspect, says in item.added():
            self._say(aspect, says)

    def _take_done(self, event: JsonObject) -> None:
        index = self._owner(event)
        if index is None:
            self._say("order", f"output_item.done for item {event.get('output_index')!r}, which is not open")
            return
        item = object_at(event, "item")
        for aspect, says in self._open.pop(index).done(item):
            self._say(aspect, says)
        self._done[index] = item

    def _take_inside(self, kind: str, event: JsonObject) -> None:
        index = self._owner(event)
        if index is None:
            self._say("order", f"{kind} without an item that is open")
            return
        for aspect, says in self._open[index].take(kind, event):
            self._say(aspect, says)

    def _owner(self, event: JsonObject) -> int | None:
        """The open item that an event belongs to: by its index, else by the id, else the only one."""
        index = number_at(event, "output_index")
        if index in self._open:
            return index
        name: Any = event.get("item_id", member(event, "item.id"))
        for number, item in self._open.items():
            if item.item.get("id") == name or len(self._open) == 1:
                self._say(
                    "index", f"output_index is {event.get('output_index')!r}, but item {number} is open"
                )
                return number
        return None

    def _say(self, aspect: Aspect, says: str) -> None:
        self.violations.append(Violation(aspect, self._at, says))
