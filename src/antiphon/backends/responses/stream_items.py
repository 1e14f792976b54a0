"""The received part of an answer's items, and the assignment of events to items.

The same text may arrive up to four times: in deltas, at the end of a part, at the end of the item, and in the
last event. It is emitted once, as soon as it arrives; `ReceivedText` computes the remaining part.

An event names its item by id and by index. Some servers send a new id with every event, others the same index
for every item. So one match is sufficient, and an event without a match begins an item.
"""

from collections.abc import Sequence
from typing import Literal

from antiphon.backends.responses.wire import EventWire, ItemWire

TextKind = Literal["text", "refusal", "raw", "summary", "arguments"]


class ReceivedText:
    """Text that arrives in pieces, or complete, or both."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def rest(self, complete: str | None) -> str:
        """The part of the complete text that was not received yet. Empty if it begins otherwise: text that
        was emitted cannot be withdrawn."""
        received = "".join(self.pieces)
        if not complete or not complete.startswith(received):
            return ""
        left = complete[len(received) :]
        if left:
            self.pieces.append(left)
        return left


class UpstreamItem:
    """One item of the answer."""

    __slots__ = ("_texts", "call", "cited", "done", "id", "kind", "name", "place", "wire")

    def __init__(self, kind: str, item_id: str | None, place: int | None) -> None:
        self.kind = kind
        self.id = item_id
        self.place = place
        self.wire = ItemWire()
        """As it was announced; empty, if it was not."""
        self.call = -1
        """The number of the call, for the machine."""
        self.name = ""
        """The machine's name of the called tool; empty while it is unknown."""
        self.done = False
        self.cited: dict[int, int] = {}
        """The number of emitted citations, by part."""
        self._texts: dict[tuple[TextKind, int], ReceivedText] = {}

    @property
    def emitted(self) -> bool:
        """Whether anything of it was emitted."""
        return bool(self.cited) or any(text.pieces for text in self._texts.values())

    def text(self, kind: TextKind, part: int | None = 0) -> ReceivedText:
        key = (kind, part or 0)
        if key not in self._texts:
            self._texts[key] = ReceivedText()
        return self._texts[key]


class UpstreamItems:
    """The items of one answer, in the order of their first event."""

    def __init__(self) -> None:
        self.all: list[UpstreamItem] = []
        self._by_id: dict[str, UpstreamItem] = {}
        self._by_place: dict[int, UpstreamItem] = {}

    def add(self, kind: str, item_id: str | None, place: int | None) -> UpstreamItem:
        """One more."""
        item = UpstreamItem(kind, item_id, place)
        self.all.append(item)
        if item_id:
            self._by_id[item_id] = item
        if place is not None:
            self._by_place[place] = item
        return item

    def announced(self, wire: ItemWire, place: int | None) -> UpstreamItem | None:
        """The item that begins; None if it has begun already."""
        known = self._named(wire.id, place)
        this = (wire.type, wire.id, place)
        if known is not None and not known.done and (known.kind, known.id, known.place) == this:
            return None
        return self.add(wire.type, wire.id, place)

    def about(self, event: EventWire, kind: str) -> UpstreamItem | None:
        """The item of this kind that an event is about; None if it is over, and nothing can be added."""
        found = self._named(event.item_id, event.output_index)
        if found is not None and found.kind == kind:
            return None if found.done else found
        if event.output_index is None and (last := self._last_open(kind)) is not None:
            return last
        return self.add(kind, event.item_id, event.output_index)

    def ended(self, wire: ItemWire, place: int | None) -> UpstreamItem | None:
        """The item that is complete now; None if it was complete already."""
        by_id = self._by_id.get(wire.id or "")
        if by_id is not None and by_id.kind == wire.type:
            return None if by_id.done else by_id
        at = self._by_place.get(-1 if place is None else place)
        if at is not None and at.kind == wire.type and not at.done:
            return at
        if place is None and (last := self._last_open(wire.type)) is not None:
            return last
        return self.add(wire.type, wire.id, place)

    def match(self, output: Sequence[ItemWire]) -> list[UpstreamItem]:
        """For each item of the complete output the received one, or a new one. Items without a known id are
        matched by type, in order, so that no text is emitted twice."""
        left = list(self.all)
        matched: dict[int, UpstreamItem] = {}
        for index, wire in enumerate(output):
            known = self._by_id.get(wire.id or "")
            if known is not None and known in left and known.kind == wire.type:
                left.remove(known)
                matched[index] = known
        for index, wire in enumerate(output):
            if index not in matched:
                same = next((item for item in left if item.kind == wire.type), None)
                if same is not None:
                    left.remove(same)
                matched[index] = same or self.add(wire.type, wire.id, None)
        return [matched[index] for index in range(len(output))]

    def _named(self, item_id: str | None, place: int | None) -> UpstreamItem | None:
        at = self._by_place.get(-1 if place is None else place)
        if at is not None and at.id == item_id:
            return at
        return self._by_id.get(item_id or "") or at

    def _last_open(self, kind: str) -> UpstreamItem | None:
        return next((item for item in reversed(self.all) if item.kind == kind and not item.done), None)
