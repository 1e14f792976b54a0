"""Items of an answer, as far as they were heard; and which of them an event is about.

The same words may come up to four times: in deltas, at the end of a part, at the end of the item, and in the
last event. They are said once, as soon as they come; `Words` knows what is left.

An event names its item by id and by place. Servers get either wrong: they make a new id for every event, or
give every item the same place. So one of the two is enough, and an event that fits no item begins one.
"""

from collections.abc import Sequence
from typing import Literal

from antiphon.backends.responses.wire import EventWire, ItemWire

TextKind = Literal["text", "refusal", "raw", "summary", "arguments"]


class Words:
    """Words that come in pieces, or whole, or both."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def rest(self, whole: str | None) -> str:
        """What of the whole was not said yet. One that begins otherwise is no continuation: what was said
        cannot be taken back."""
        said = "".join(self.pieces)
        if not whole or not whole.startswith(said):
            return ""
        left = whole[len(said) :]
        if left:
            self.pieces.append(left)
        return left


class UpstreamItem:
    """One item of the answer."""

    __slots__ = ("_words", "call", "cited", "done", "id", "kind", "name", "place", "wire")

    def __init__(self, kind: str, item_id: str | None, place: int | None) -> None:
        self.kind = kind
        self.id = item_id
        self.place = place
        self.wire = ItemWire()
        """As it was announced; empty, if it was not."""
        self.call = -1
        """The number of the call, for the machine."""
        self.name = ""
        """What the machine knows the called tool by; empty while that is not known."""
        self.done = False
        self.cited: dict[int, int] = {}
        """How many citations were told, by part."""
        self._words: dict[tuple[TextKind, int], Words] = {}

    @property
    def spoken(self) -> bool:
        """Whether anything of it was said."""
        return bool(self.cited) or any(words.pieces for words in self._words.values())

    def words(self, kind: TextKind, part: int | None = 0) -> Words:
        """The words of a part."""
        key = (kind, part or 0)
        if key not in self._words:
            self._words[key] = Words()
        return self._words[key]


class UpstreamItems:
    """The items of one answer, in the order in which they were heard of."""

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
        """The item that begins; None if that was said before."""
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
        """The item that is whole now; None if that was said before."""
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
        """For each item of the whole output the one that was heard, or a new one. Those without a known id
        are the others of their kind, in order: words must not be said twice."""
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
