"""Notices a model that repeats itself without end. Pure.

Small models fall into loops that they do not leave: the same words again and again, or slight variations of
the same lines. Two signs are looked for in the last words of an answer:

- the same words follow each other many times in a row;
- of the sequences of `SEQUENCE_WORDS` words in a long stretch, few are different.

Lists, tables, poems with a refrain and code repeat words, but go on to new sequences of them.
"""

import re
from collections import deque

STRETCH_WORDS = 120
SEQUENCE_WORDS = 3
MIN_DIFFERENT_SEQUENCES = 34
"""Of a stretch: 28 %. Prose has above 80 %, code and tables above 50 %, a song of counted bottles 33 %."""
MAX_CYCLE_WORDS = 60
MIN_CYCLES = 3
MIN_CYCLING_WORDS = 40
"""So that laughter or an empty row of a table is none."""
_WORD = re.compile(r"\w{1,16}|[^\w\s]{1,16}")
"""A word, or a run of punctuation. Longer ones are divided, so that a loop without white space is one too."""


class RepetitionGuard:
    """Reads one answer as it arrives. `repeats` stays true once a loop was found."""

    __slots__ = ("_counts", "_rest", "_sequences", "_words", "repeats")

    def __init__(self) -> None:
        self.repeats = False
        self._rest = ""
        self._words: deque[str] = deque(maxlen=MAX_CYCLE_WORDS * MIN_CYCLES)
        self._sequences: deque[tuple[str, ...]] = deque()
        self._counts: dict[tuple[str, ...], int] = {}

    def read(self, text: str) -> bool:
        """Take more of the answer; whether it repeats itself by now."""
        *words, rest = _split(self._rest + text)
        self._rest = rest
        for word in words:
            self._add(word)
            self.repeats = self.repeats or self._varies_too_little() or self._cycles()
        return self.repeats

    def _add(self, word: str) -> None:
        self._words.append(word)
        if len(self._words) < SEQUENCE_WORDS:
            return
        sequence = tuple(self._words[index] for index in range(-SEQUENCE_WORDS, 0))
        self._sequences.append(sequence)
        self._counts[sequence] = self._counts.get(sequence, 0) + 1
        if len(self._sequences) > STRETCH_WORDS:
            oldest = self._sequences.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]

    def _varies_too_little(self) -> bool:
        return len(self._sequences) == STRETCH_WORDS and len(self._counts) < MIN_DIFFERENT_SEQUENCES

    def _cycles(self) -> bool:
        """Whether the last words are one sequence, repeated."""
        words = [*self._words]
        for length in range(1, MAX_CYCLE_WORDS + 1):
            needed = max(length * MIN_CYCLES, MIN_CYCLING_WORDS)
            if needed > len(words):
                return False
            tail = words[-needed:]
            if tail[length:] == tail[:-length]:
                return True
        return False


def _split(text: str) -> list[str]:
    """The complete words of a text, in lower case, and last the rest, which may continue."""
    words: list[str] = _WORD.findall(text.lower())
    rest = words.pop() if words and not text[-1].isspace() else ""
    return [*words, rest]
