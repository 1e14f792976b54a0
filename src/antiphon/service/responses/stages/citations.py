"""Citations of passages in the text become annotations (turn/citations.py)."""

from collections.abc import Sequence

from antiphon.service.responses.stages.base import PassingStage
from antiphon.turn.chunks import (
    AnnotationAdded,
    Chunk,
    DowngradesAdded,
    Heartbeat,
    TextDelta,
    TurnStarted,
    UsageReported,
    UsageSpent,
)
from antiphon.turn.citations import CitationCutter
from antiphon.turn.context import TurnRequest
from antiphon.turn.function_forms.file_searches import Sources

_ELSEWHERE = (UsageReported, UsageSpent, DowngradesAdded, Heartbeat, TurnStarted)
"""Chunks that belong to no item."""


class CitationStage(PassingStage):
    """Cuts the markers out of one message after another."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._message: CitationCutter | None = None

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """A chunk of another item ends the message."""
        passed: list[Chunk] = []
        for chunk in chunks:
            if isinstance(chunk, TextDelta):
                if self._message is None:
                    self._message = CitationCutter(self._sources)
                passed += self._message.feed(chunk)
                continue
            if self._message is not None and not isinstance(chunk, _ELSEWHERE):
                passed += self._message.end()
                if not isinstance(chunk, AnnotationAdded):
                    self._message = None
            passed.append(chunk)
        return passed


def citation_stage(turn: TurnRequest) -> CitationStage | None:
    """None if the model has no passages to cite, or answers in JSON, in which `[1]` is an array."""
    text = turn.params.text
    has_format = text is not None and text.format is not None and text.format.type != "text"
    return None if not turn.sources.results or has_format else CitationStage(turn.sources)
