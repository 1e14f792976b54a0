"""Citations of passages in the text become annotations (turn/citations.py).

Small models often cite nothing. If the words of such an answer are those of a passage, the answer gets the
citation of that passage at its end, and `downgrades` says so.
"""

import re
from collections.abc import Sequence

from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrade
from antiphon.retrieval.terms import STOP_WORDS
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
from antiphon.turn.citations import CitationCutter, file_citation
from antiphon.turn.context import TurnRequest
from antiphon.turn.function_forms.file_searches import Sources

MAX_MATCHED_CHARACTERS = 1_000
"""A longer answer without citations stays without: it is about more than one passage."""
MIN_MATCHED_WORDS = 3
MIN_MATCHED_SENTENCE_WORDS = 5
"""Of a sentence among others."""
MIN_MATCHED_PART = 0.6
"""Of the words of an answer, or of a sentence of it, that its passage must have."""
MAX_COMPARED_PASSAGES = 200
MAX_COMPARED_CHARACTERS = 200_000
"""Of all compared passages."""
MATCHED = Downgrade(
    "emulated", "the model cited nothing; the passage that has the words of its answer is cited"
)
_ELSEWHERE = (UsageReported, UsageSpent, DowngradesAdded, Heartbeat, TurnStarted)
"""Chunks that belong to no item."""
_WORD = re.compile(r"[^\W_]+")
_GROUP_MARK = re.compile(r"(?<=\d)[,.'’](?=\d{3}(?!\d))")
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s")


class CitationStage(PassingStage):
    """Cuts the markers out of one message after another."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._message: CitationCutter | None = None
        self._text = ""
        """The beginning of the message."""
        self._is_cited = False

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """A chunk of another item ends the message."""
        passed: list[Chunk] = []
        for chunk in chunks:
            if isinstance(chunk, TextDelta):
                if self._message is None:
                    self._message = CitationCutter(self._sources)
                    self._text, self._is_cited = "", False
                passed += self._seen(self._message.feed(chunk))
                continue
            if self._message is not None and not isinstance(chunk, _ELSEWHERE):
                passed += self._seen(self._message.end())
                if isinstance(chunk, AnnotationAdded):
                    self._is_cited = True
                else:
                    passed += self._matched()
                    self._message = None
            passed.append(chunk)
        return passed

    def _seen(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        for chunk in chunks:
            if isinstance(chunk, AnnotationAdded):
                self._is_cited = True
            elif isinstance(chunk, TextDelta) and len(self._text) <= MAX_MATCHED_CHARACTERS:
                self._text += chunk.text
        return chunks

    def _matched(self) -> Sequence[Chunk]:
        """The citation of a message that has none."""
        if self._is_cited or len(self._text) > MAX_MATCHED_CHARACTERS:
            return ()
        passage = matching_passage(self._text, self._sources.results)
        if passage is None:
            return ()
        return (AnnotationAdded(file_citation(passage)), DowngradesAdded((MATCHED,)))


def matching_passage(text: str, passages: Sequence[JsonObject]) -> JsonObject | None:
    """The passage of a file with most of the words of a text, or of one of its sentences, and all numbers of
    the text."""
    parts = [(_words(text), MIN_MATCHED_WORDS)]
    parts += [(_words(sentence), MIN_MATCHED_SENTENCE_WORDS) for sentence in _SENTENCE_END.split(text)]
    numbers = {word for word in parts[0][0] if word.isdigit()}
    parts = [(words, least) for words, least in parts if len(words) >= least]
    best, most = None, 0
    for passage in _newest(passages) if parts else ():
        shown = set(_all_words(str(passage.get("text", ""))))
        if "url" in passage or not numbers <= shown:
            continue
        for words, least in parts:
            shared = len(words & shown)
            if shared > most and shared >= max(least, MIN_MATCHED_PART * len(words)):
                best, most = passage, shared
    return best


def _newest(passages: Sequence[JsonObject]) -> Sequence[JsonObject]:
    """The last ones that can be compared in a few milliseconds."""
    room, first = MAX_COMPARED_CHARACTERS, len(passages)
    while first and len(passages) - first < MAX_COMPARED_PASSAGES:
        room -= len(str(passages[first - 1].get("text", "")))
        if room < 0:
            break
        first -= 1
    return passages[first:]


def _words(text: str) -> set[str]:
    return {word for word in _all_words(text) if word not in STOP_WORDS}


def _all_words(text: str) -> list[str]:
    """The words and numbers; a number is the same with and without marks between its groups."""
    return _WORD.findall(_GROUP_MARK.sub("", text.casefold()))


def citation_stage(turn: TurnRequest) -> CitationStage | None:
    """None if the model has no passages to cite, or answers in JSON, in which `[1]` is an array."""
    text = turn.params.text
    has_format = text is not None and text.format is not None and text.format.type != "text"
    return None if not turn.sources.results or has_format else CitationStage(turn.sources)
