"""Links to files of a container, such as `[data](sandbox:/mnt/data/data.csv)`, become citations. Sans-IO.

The text stays as it is. A citation covers the target of the link, as OpenAI's does. Wherever the text is
split into deltas, the result is the same; only what may be a target is held.
"""

import re
from collections.abc import Callable
from urllib.parse import unquote

from antiphon.protocol.content import JsonObject, Logprob
from antiphon.turn.chunks import AnnotationAdded, Chunk, TextDelta

PREFIX = "sandbox:/mnt/data/"
MAX_TARGET_CHARACTERS = 1024
"""A longer target is no link."""
_END_OF_TARGET = re.compile(r"[)\n]")
"""In parentheses: models write names with spaces as they are."""
_END_OF_WORD = re.compile(r"""[\s)\]>"'`]""")
_PUNCTUATION = ".,;:!?*"

Cite = Callable[[str], JsonObject | None]
"""The citation of a file by its name; None if there is no such file."""


class ContainerLinks:
    """Finds the links in one message."""

    def __init__(self, cite: Cite) -> None:
        self._cite = cite
        self._held = ""
        self._last = ""
        """The last character of the text that was passed."""
        self._logprobs: list[Logprob] = []

    def feed(self, chunk: TextDelta) -> list[Chunk]:
        """The text that passes on, and its citations."""
        self._logprobs += chunk.logprobs
        return self._read(self._held + chunk.text, ended=False)

    def end(self) -> list[Chunk]:
        """The message has ended: nothing more is held."""
        return self._read(self._held, ended=True) if self._held else []

    def _read(self, text: str, *, ended: bool) -> list[Chunk]:
        passed: list[Chunk] = []
        self._held = ""
        while (start := text.find(PREFIX)) >= 0:
            before = text[start - 1] if start else self._last
            ending = (_END_OF_TARGET if before == "(" else _END_OF_WORD).search(text, start)
            end = len(text) if ending is None else ending.start()
            if ending is None and not ended and end - start <= MAX_TARGET_CHARACTERS:
                self._pass(text[:start], passed)
                self._held = text[start:]
                return passed
            citation, end = self._found(text, start, end)
            self._pass(text[:end], passed)
            if citation is not None:
                passed.append(AnnotationAdded(citation, end - start))
            text = text[end:]
        begun = 0 if ended else _begun(text)
        self._pass(text[: len(text) - begun], passed)
        self._held = text[len(text) - begun :]
        return passed

    def _found(self, text: str, start: int, end: int) -> tuple[JsonObject | None, int]:
        """The citation of a target and its end, which may be before a punctuation mark."""
        if end - start > MAX_TARGET_CHARACTERS:
            return None, end
        target = text[start + len(PREFIX) : end]
        for name in (target, target.rstrip(_PUNCTUATION)):
            citation = self._cite(name) or self._cite(unquote(name))
            if citation is not None:
                return citation, start + len(PREFIX) + len(name)
        return None, end

    def _pass(self, text: str, passed: list[Chunk]) -> None:
        if text:
            logprobs, self._logprobs = tuple(self._logprobs), []
            passed.append(TextDelta(text, logprobs))
            self._last = text[-1]


def _begun(text: str) -> int:
    """How many characters at the end of the text may be the beginning of a link."""
    for length in range(min(len(text), len(PREFIX) - 1), 0, -1):
        if PREFIX.startswith(text[-length:]):
            return length
    return 0
