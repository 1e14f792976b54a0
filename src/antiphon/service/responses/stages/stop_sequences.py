"""Stop sequences: the answer ends before the first one in its text.

Not every upstream has the parameter, so the text is cut here, for every model. Text that may be the beginning
of a sequence is held until it is decided. The sequence that ended the answer is reported; the rest of the
turn is not read, so that the upstream stops generating.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from antiphon.protocol.content import Logprob
from antiphon.service.responses.stages.base import Cut, PassingStage
from antiphon.turn.chunks import (
    AnnotationAdded,
    Chunk,
    StopSequenceFound,
    TextDelta,
    UsageReported,
    UsageSpent,
)


class StopSequenceStage(PassingStage):
    """Looks for the sequences in one message after another."""

    def __init__(self, sequences: Sequence[str]) -> None:
        self.cut: Cut | None = None
        self._sequences = sorted(set(sequences))
        self._longest = max(map(len, sequences))
        self._held = ""
        self._logprobs: list[Logprob] = []
        """Those of the tokens that are not passed on yet."""

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """After a find only the cost of the turn passes on."""
        passed: list[Chunk] = []
        for chunk in chunks:
            if self.cut is not None:
                if isinstance(chunk, UsageReported | UsageSpent):
                    passed.append(chunk)
            elif isinstance(chunk, TextDelta):
                self._text(chunk, passed)
            else:
                if not isinstance(chunk, AnnotationAdded | UsageReported):
                    self._release(passed)
                passed.append(chunk)
        return passed

    def _text(self, chunk: TextDelta, passed: list[Chunk]) -> None:
        text = self._held + chunk.text
        self._logprobs += chunk.logprobs
        find = _first(text, self._sequences)
        if find is not None:
            self.cut = "complete"
            self._pass(text[: find.position], passed)
            passed.append(StopSequenceFound(find.sequence))
            return
        held = self._beginning(text)
        self._held = text[len(text) - held :]
        self._pass(text[: len(text) - held], passed)

    def _beginning(self, text: str) -> int:
        """The length of the longest end of the text that begins a sequence."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-size:]
            position = bisect_left(self._sequences, end)  # the first of those that may begin so
            if position < len(self._sequences) and self._sequences[position].startswith(end):
                return size
        return 0

    def _release(self, passed: list[Chunk]) -> None:
        text, self._held = self._held, ""
        self._pass(text, passed)

    def _pass(self, text: str, passed: list[Chunk]) -> None:
        if text:
            passed.append(TextDelta(text, self._logprobs_of(text)))

    def _logprobs_of(self, text: str) -> tuple[Logprob, ...]:
        """The tokens that lie in this text; one that reaches beyond it waits, with the rest of its text."""
        taken, size = 0, 0
        for logprob in self._logprobs:
            size += len(logprob.token)
            if size > len(text):
                break
            taken += 1
        passed, self._logprobs = self._logprobs[:taken], self._logprobs[taken:]
        return tuple(passed)


class _Find(NamedTuple):
    position: int
    sequence: str


def _first(text: str, sequences: Sequence[str]) -> _Find | None:
    """The sequence that is complete first; how the text was cut into deltas does not change which."""
    finds = [_Find(text.find(sequence), sequence) for sequence in sequences if sequence in text]
    return min(finds, key=lambda find: (find.position + len(find.sequence), find.position)) if finds else None
