"""Removes the secrets of this process from the chunks of a turn, also if they are split over several deltas.

A delta that ends with the beginning of a secret is held back until the next one shows whether it is the
secret. All others pass unchanged; that costs one search for a few characters per batch.
"""

from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from antiphon.known_secrets import HIDDEN, START_CHARACTERS, KnownSecrets
from antiphon.protocol.tool_items import HostedItem
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Chunk,
    Failed,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
)

_Delta = TextDelta | RefusalDelta | ReasoningDelta | ReasoningSummaryDelta | CallDelta


class SecretFilter:
    """Filters the chunks of one turn."""

    __slots__ = ("_held", "_secrets", "_series", "_tail")

    def __init__(self, secrets: KnownSecrets) -> None:
        self._secrets = secrets
        self._series: object = None
        """What the last delta continues: a text, or one call among several."""
        self._tail = ""
        """The last characters that were passed on; a secret may begin with them."""
        self._held: list[_Delta] = []

    def feed(self, batch: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks that may be passed on; possibly none."""
        if self._series is TextDelta and not self._held:
            first = batch[0]
            if len(batch) == 1 and type(first) is TextDelta:
                text = first.text
            elif all(type(chunk) is TextDelta for chunk in batch):
                text = "".join(map(_text, cast("Sequence[TextDelta]", batch)))
            else:
                return self._filtered(batch)
            window = self._tail + text
            if self._secrets.starts.search(window) is None:
                self._tail = window[1 - START_CHARACTERS :]
                return batch
        return self._filtered(batch)

    def _filtered(self, batch: Sequence[Chunk]) -> list[Chunk]:
        passed: list[Chunk] = []
        for chunk in batch:
            if isinstance(chunk, _Delta):
                series = _series(chunk)
                if series != self._series:
                    passed += self._released()
                    self._series = series
                self._held.append(chunk)
                passed += self._decided()
            else:
                passed += self._released()
                self._series = None
                passed.append(self._scrubbed(chunk))
        return passed

    def _released(self) -> Sequence[Chunk]:
        """The deltas that were held back, when no other can complete a secret."""
        held, self._held, self._tail = self._held, [], ""
        return held

    def _decided(self) -> Sequence[Chunk]:
        """The deltas that can be passed on now."""
        secrets, held = self._secrets, self._held
        window = self._tail + "".join(map(_text, held))
        if secrets.starts.search(window) is None:
            return self._passed(held, window)
        found = secrets.complete.search(window)
        if found is not None:
            hidden_from = min(len(self._tail), found.start())  # the first characters may have been passed on
            text = secrets.scrub(window)[hidden_from:]
            end = text.rfind(HIDDEN) + len(HIDDEN)
            self._held, self._tail = [_with_text(held[0], text[end:])] if text[end:] else [], ""
            return [_with_text(held[0], text[:end]), *(self._decided() if self._held else ())]
        return [] if secrets.ends_within(window) else self._passed(held, window)

    def _passed(self, chunks: list[_Delta], window: str) -> list[_Delta]:
        self._held, self._tail = [], window[1 - START_CHARACTERS :]
        return chunks

    def _scrubbed_item(self, item: HostedItem) -> HostedItem:
        text = msgspec.json.encode(item).decode()
        if self._secrets.complete.search(text) is None:
            return item
        return msgspec.json.decode(self._secrets.scrub(text), type=type(item))

    def _scrubbed(self, chunk: Chunk) -> Chunk:
        scrub = self._secrets.scrub
        match chunk:
            case HostedItemBegun() | HostedItemDone():
                return replace(chunk, item=self._scrubbed_item(chunk.item))
            case HostedItemStep():
                return replace(chunk, fields=tuple(map(scrub, chunk.fields))) if chunk.fields else chunk
            case AnnotationAdded():
                return AnnotationAdded(
                    msgspec.json.decode(scrub(msgspec.json.encode(chunk.annotation).decode()))
                )
            case CallStarted():
                return replace(chunk, name=scrub(chunk.name))
            case Failed():
                chunk.error.message = scrub(chunk.error.message)
                chunk.error.args = (chunk.error.message,)
                return chunk
            case _:
                return chunk


def _series(chunk: _Delta) -> object:
    if isinstance(chunk, CallDelta):
        return CallDelta, chunk.index
    return (ReasoningSummaryDelta, chunk.part) if isinstance(chunk, ReasoningSummaryDelta) else type(chunk)


def _text(chunk: _Delta) -> str:
    return chunk.arguments if isinstance(chunk, CallDelta) else chunk.text


def _with_text(chunk: _Delta, text: str) -> _Delta:
    if isinstance(chunk, CallDelta):
        return replace(chunk, arguments=text)
    return TextDelta(text) if isinstance(chunk, TextDelta) else replace(chunk, text=text)
