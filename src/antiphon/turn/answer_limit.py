"""Limits of one answer: a model that does not stop is stopped.

The chunks are counted as they come from the backend, before stages hold them back and before they become
items. At a limit the answer is cut, and ends as if the model had reached its own maximum of output tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import ImageGenerationCallPartialImage
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Chunk,
    Compacted,
    DowngradesAdded,
    Finished,
    Heartbeat,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    ToolsFound,
    UsageReported,
)


class AnswerBounds(Struct, frozen=True, kw_only=True):
    """The most that one response may contain, over all of its rounds."""

    max_bytes: int = 8 * 1024 * 1024
    """Of text, reasoning, arguments and results of hosted tools, as UTF-8."""
    max_tokens: int = 1_000_000
    """Counted as chunks: in a stream each holds a token or more."""
    max_items: int = 1000
    max_calls: int = 256


DEFAULT_BOUNDS = AnswerBounds()

_Item = Literal["message", "reasoning", "other"]
_ITEMS: Mapping[type[Chunk], _Item] = {
    TextDelta: "message",
    RefusalDelta: "message",
    AnnotationAdded: "message",
    ReasoningDelta: "reasoning",
    ReasoningSummaryDelta: "reasoning",
    ProviderStateAdded: "reasoning",
    CallStarted: "other",
    HostedItemBegun: "other",
    HostedItemDone: "other",
    Compacted: "other",
    ToolsFound: "other",
}
"""The items of chunks. Each chunk of another item begins one; consecutive ones of the first two belong to the
same."""


MAX_CHARACTER_BYTES = 4
"""Of a character in UTF-8."""
MAX_UNMEASURED_TEXTS = 1000
_UNCOUNTED = frozenset((Heartbeat, UsageReported, Finished))


class AnswerLimit:
    """Counts the chunks of one response."""

    __slots__ = (
        "_bounds",
        "_calls",
        "_item",
        "_items",
        "_tokens",
        "_unmeasured",
        "bytes_bound",
        "ended",
        "reached",
    )

    def __init__(self, bounds: AnswerBounds = DEFAULT_BOUNDS) -> None:
        self._bounds = bounds
        self.bytes_bound = 0
        """The answer so far has no more bytes than this."""
        self._tokens = self._items = self._calls = 0
        self._unmeasured: list[str] = []
        """Texts that `bytes_bound` counts with the most bytes that they can have; they are measured before a
        limit is reached, or when there are many: until then they stay in memory."""
        self._item: _Item | None = None
        """The item of the last chunk."""
        self.reached: str | None = None
        """The limit that was reached, in words."""
        self.ended = False
        """Whether the end of the answer was given: nothing more of it is read."""

    def reach(self, limit: str) -> None:
        """End the answer with its next batch: it has reached a limit that is counted elsewhere."""
        self.reached = limit

    def take(self, batch: Sequence[Chunk]) -> Sequence[Chunk]:
        """A batch, cut off where a limit is reached. Most batches are text of one message."""
        if self.reached is not None:
            return self._ending(batch)
        size, tokens = self.bytes_bound, self._tokens
        unmeasured: list[str] | None = None
        for chunk in batch:
            if type(chunk) is TextDelta and not chunk.logprobs:
                text = chunk.text
                if text.isascii():
                    size += len(text)
                else:
                    size += MAX_CHARACTER_BYTES * len(text)
                    unmeasured = unmeasured or []
                    unmeasured.append(text)
                tokens += 1
            elif type(chunk) not in _UNCOUNTED:
                return self._take_each(batch)
        bounds, items = self._bounds, self._items
        if tokens > self._tokens and self._item != "message":
            items += 1
        if size > bounds.max_bytes or tokens > bounds.max_tokens or items > bounds.max_items:
            return self._take_each(batch)
        if items > self._items:
            self._items, self._item = items, "message"
        self.bytes_bound, self._tokens = size, tokens
        if unmeasured is not None:
            self._measure_later(unmeasured)
        return batch

    def _measure_later(self, texts: list[str]) -> None:
        self._unmeasured += texts
        if len(self._unmeasured) > MAX_UNMEASURED_TEXTS:
            self._measure()

    def _measure(self) -> None:
        """Replace the upper bounds by sizes. Encoding every text at once would cost more than the rest."""
        for text in self._unmeasured:
            self.bytes_bound += _text_bytes(text) - MAX_CHARACTER_BYTES * len(text)
        self._unmeasured = []

    def _take_each(self, batch: Sequence[Chunk]) -> Sequence[Chunk]:
        self._measure()
        for position, chunk in enumerate(batch):
            if type(chunk) in _UNCOUNTED:
                continue
            room = self._bounds.max_bytes - self.bytes_bound
            self._count(chunk)
            if self.reached is not None:
                part = _first_bytes(chunk, room) if self.bytes_bound > self._bounds.max_bytes else None
                kept = [*batch[:position], *(() if part is None else (part,))]
                return [*kept, *self._ending(batch[position:])]
        return batch

    def _count(self, chunk: Chunk) -> None:
        kind, bounds = type(chunk), self._bounds
        if kind is ItemBegun:
            self._item = None
        item = _ITEMS.get(kind)
        if item is not None and not (isinstance(chunk, HostedItemDone) and chunk.index is not None):
            self._items += item == "other" or item != self._item
            self._item = item
        self._tokens += 1
        self._calls += kind is CallStarted
        self.bytes_bound += _chunk_bytes(chunk)
        if self.bytes_bound > bounds.max_bytes:
            self.reached = f"{bounds.max_bytes} bytes"
        elif self._tokens > bounds.max_tokens:
            self.reached = f"{bounds.max_tokens} tokens"
        elif self._items > bounds.max_items:
            self.reached = f"{bounds.max_items} items"
        elif self._calls > bounds.max_calls:
            self.reached = f"{bounds.max_calls} calls"

    def _ending(self, rest: Sequence[Chunk]) -> list[Chunk]:
        """The end of the answer. The usage is that of the whole, if it is known already."""
        self.ended = True
        text = f"the answer was cut off: this server's limit of an answer is {self.reached}"
        usage = [chunk for chunk in rest if isinstance(chunk, UsageReported)]
        return [DowngradesAdded((Downgrade("output_limit", text),)), *usage, Finished("length")]


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _chunk_bytes(chunk: Chunk) -> int:
    match chunk:
        case TextDelta():
            logprobs = len(msgspec.json.encode(chunk.logprobs)) if chunk.logprobs else 0
            return _text_bytes(chunk.text) + logprobs
        case RefusalDelta() | ReasoningDelta() | ReasoningSummaryDelta():
            return _text_bytes(chunk.text)
        case CallDelta():
            return _text_bytes(chunk.arguments)
        case CallStarted():
            return _text_bytes(chunk.name) + _text_bytes(chunk.call_id)
        case HostedItemStep(event=kind) if kind is ImageGenerationCallPartialImage:
            return 0  # it is not part of the answer, and bounded for each image
        case HostedItemStep():
            return sum(_text_bytes(field) for field in chunk.fields if isinstance(field, str))
        case ProviderStateAdded() | AnnotationAdded() | HostedItemBegun() | HostedItemDone():
            return len(msgspec.json.encode(chunk))
        case _:
            return 0


def _first_bytes(chunk: Chunk, size: int) -> Chunk | None:
    """The part of a text that still fits."""
    if not isinstance(chunk, TextDelta | ReasoningDelta):
        return None
    text = chunk.text.encode("utf-8", "surrogatepass")[:size].decode("utf-8", "ignore")
    return replace(chunk, text=text, logprobs=()) if isinstance(chunk, TextDelta) else ReasoningDelta(text)
