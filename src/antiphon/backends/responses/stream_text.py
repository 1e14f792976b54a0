"""Words of an answer, as chunks: each is said once, and words of two items are kept apart."""

from antiphon.backends.responses.messages import reasoning_state
from antiphon.backends.responses.stream_items import TextKind, UpstreamItem
from antiphon.backends.responses.wire import ItemWire, PartWire, TokenWire
from antiphon.protocol.content import JsonObject, Logprob, TopLogprob
from antiphon.turn.chunks import (
    AnnotationAdded,
    Chunk,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
)


class TextWriter:
    """Says the words of one answer."""

    def __init__(self, chunks: list[Chunk], origin: str) -> None:
        self._chunks = chunks
        self._origin = origin
        self._last: UpstreamItem | None = None
        """The item that spoke last."""

    def say(
        self,
        item: UpstreamItem,
        kind: TextKind,
        part: int,
        text: str,
        logprobs: list[TokenWire] | None = None,
    ) -> None:
        """These words, now."""
        self._turn_to(item)
        match kind:
            case "text":
                self._chunks.append(TextDelta(text, tuple(map(_logprob, logprobs or ()))))
            case "refusal":
                self._chunks.append(RefusalDelta(text))
            case "raw":
                self._chunks.append(ReasoningDelta(text))
            case "summary":
                self._chunks.append(ReasoningSummaryDelta(text, part))
            case "arguments":
                raise AssertionError("what is written for a call is said by `Caller`")

    def settle(
        self,
        item: UpstreamItem,
        kind: TextKind,
        part: int,
        whole: str | None,
        logprobs: list[TokenWire] | None = None,
    ) -> None:
        """All words of a part: what was not said yet is."""
        words = item.words(kind, part)
        unsaid = not words.pieces
        rest = words.rest(whole)
        if rest:
            self.say(item, kind, part, rest, logprobs if unsaid else None)

    def settle_part(self, item: UpstreamItem, index: int, part: PartWire) -> None:
        """A whole part of the item's content."""
        if item.kind == "reasoning":
            self.settle(item, "raw", index, part.text)
        elif part.type == "refusal":
            self.settle(item, "refusal", index, part.refusal)
        else:
            self.settle(item, "text", index, part.text, part.logprobs)
            for annotation in (part.annotations or [])[item.cited.get(index, 0) :]:
                self.cite(item, index, annotation)

    def cite(self, item: UpstreamItem, part: int, annotation: JsonObject) -> None:
        """A citation for the words so far."""
        item.cited[part] = item.cited.get(part, 0) + 1
        self._turn_to(item)
        self._chunks.append(AnnotationAdded(annotation))

    def end_message(self, item: UpstreamItem, whole: ItemWire) -> None:
        """A message is whole, even if it has no words."""
        if not item.spoken:
            self._turn_to(item)
        parts = [PartWire(text=whole.content)] if isinstance(whole.content, str) else whole.content
        for index, part in enumerate(parts or ()):
            self.settle_part(item, index, part)
        if item.spoken:
            self._end(item, whole)

    def end_reasoning(self, item: UpstreamItem, whole: ItemWire) -> None:
        """Reasoning is whole; what is sealed of it counts only now."""
        for index, part in enumerate(whole.summary or ()):
            self.settle(item, "summary", index, part.text)
        for index, part in enumerate(whole.content if isinstance(whole.content, list) else ()):
            self.settle_part(item, index, part)
        if whole.encrypted_content:
            self._turn_to(item)
            mark = reasoning_state(self._origin, whole.id, whole.encrypted_content)
            self._chunks.append(ProviderStateAdded(mark))
        if item.spoken or whole.encrypted_content:
            self._end(item, whole)

    def _end(self, item: UpstreamItem, whole: ItemWire) -> None:
        """Whatever follows, even a failure, does not belong to the item any more."""
        if self._last is item and whole.status != "incomplete":
            self._chunks.append(ItemBegun())
            self._last = None

    def _turn_to(self, item: UpstreamItem) -> None:
        """The item speaks. Two of one kind in a row must be told apart."""
        last = self._last
        if last is not item:
            phase = item.wire.phase
            if phase or (last is not None and last.kind == item.kind):
                self._chunks.append(ItemBegun(phase))
            self._last = item


def _logprob(wire: TokenWire) -> Logprob:
    best = [TopLogprob(other.token, other.bytes, other.logprob) for other in wire.top_logprobs or ()]
    return Logprob(wire.token, wire.bytes, wire.logprob, best)
