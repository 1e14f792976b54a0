"""The text of an answer as chunks: emitted once, with a boundary between two items."""

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
    """Emits the text of one answer."""

    def __init__(self, chunks: list[Chunk], origin: str) -> None:
        self._chunks = chunks
        self._origin = origin
        self._last: UpstreamItem | None = None
        """The item of the last chunk."""

    def emit(
        self,
        item: UpstreamItem,
        kind: TextKind,
        part: int,
        text: str,
        logprobs: list[TokenWire] | None = None,
    ) -> None:
        """Emit a delta."""
        self._switch_to(item)
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
                raise AssertionError("arguments are emitted by `CallWriter`")

    def settle(
        self,
        item: UpstreamItem,
        kind: TextKind,
        part: int,
        complete: str | None,
        logprobs: list[TokenWire] | None = None,
    ) -> None:
        """Emit the missing part of the complete text of a part."""
        received = item.text(kind, part)
        first = not received.pieces
        rest = received.rest(complete)
        if rest:
            self.emit(item, kind, part, rest, logprobs if first else None)

    def settle_part(self, item: UpstreamItem, index: int, part: PartWire) -> None:
        """A complete part of the item's content."""
        if item.kind == "reasoning":
            self.settle(item, "raw", index, part.text)
        elif part.type == "refusal":
            self.settle(item, "refusal", index, part.refusal)
        else:
            self.settle(item, "text", index, part.text, part.logprobs)
            for annotation in (part.annotations or [])[item.cited.get(index, 0) :]:
                self.cite(item, index, annotation)

    def cite(self, item: UpstreamItem, part: int, annotation: JsonObject) -> None:
        """A citation of the text so far."""
        item.cited[part] = item.cited.get(part, 0) + 1
        self._switch_to(item)
        self._chunks.append(AnnotationAdded(annotation))

    def end_message(self, item: UpstreamItem, complete: ItemWire) -> None:
        """A message is complete; it may be empty."""
        if not item.emitted:
            self._switch_to(item)
        parts = [PartWire(text=complete.content)] if isinstance(complete.content, str) else complete.content
        for index, part in enumerate(parts or ()):
            self.settle_part(item, index, part)
        if item.emitted:
            self._end(item, complete)

    def end_reasoning(self, item: UpstreamItem, complete: ItemWire) -> None:
        """Reasoning is complete; its sealed form is valid only now."""
        for index, part in enumerate(complete.summary or ()):
            self.settle(item, "summary", index, part.text)
        for index, part in enumerate(complete.content if isinstance(complete.content, list) else ()):
            self.settle_part(item, index, part)
        if complete.encrypted_content:
            self._switch_to(item)
            state = reasoning_state(self._origin, complete.id, complete.encrypted_content)
            self._chunks.append(ProviderStateAdded(state))
        if item.emitted or complete.encrypted_content:
            self._end(item, complete)

    def _end(self, item: UpstreamItem, complete: ItemWire) -> None:
        """Separate the item from the next chunk, even from a failure."""
        if self._last is item and complete.status != "incomplete":
            self._chunks.append(ItemBegun())
            self._last = None

    def _switch_to(self, item: UpstreamItem) -> None:
        """Begin or continue an item; two of one kind in a row need a boundary."""
        last = self._last
        if last is not item:
            phase = item.wire.phase
            if phase or (last is not None and last.kind == item.kind):
                self._chunks.append(ItemBegun(phase))
            self._last = item


def _logprob(wire: TokenWire) -> Logprob:
    best = [TopLogprob(other.token, other.bytes, other.logprob) for other in wire.top_logprobs or ()]
    return Logprob(wire.token, wire.bytes, wire.logprob, best)
