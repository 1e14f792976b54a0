"""Where the body of a call ends, found as the text arrives. Each character is looked at once."""

import re
from functools import lru_cache
from typing import NamedTuple, Protocol


class End(NamedTuple):
    """Where a body ends, with its closing tag, and how far one had to read to know it."""

    body: int
    span: int
    read: int


class NoEnd(NamedTuple):
    """That the text is no body after all, and how far one had to read to know it."""

    read: int


class EndFinder(Protocol):
    """Looks for the end of one body."""

    def feed(self, text: str) -> End | NoEnd | None:
        """Read more of the body, perhaps beyond its end; the end, counted from the body's beginning."""
        ...

    @property
    def fallback(self) -> End | None:
        """Where the body ends if nothing better was found when the text is over."""
        ...


def partial_length(text: str, tag: str) -> int:
    """The length of the longest end of `text` with which `tag` begins; the whole tag does not count."""
    at = text.find(tag[0], max(0, len(text) - len(tag) + 1))
    while at >= 0:
        if tag.startswith(text[at:]):
            return len(text) - at
        at = text.find(tag[0], at + 1)
    return 0


class AtTag:
    """The body ends at the first closing tag, wherever that stands."""

    fallback = None

    def __init__(self, close: str) -> None:
        self._close = close
        self._unread = ""
        self._offset = 0

    def feed(self, text: str) -> End | None:
        """See `EndFinder`."""
        window = self._unread + text
        at = window.find(self._close)
        if at >= 0:
            span = self._offset + at + len(self._close)
            return End(self._offset + at, span, span)
        kept = partial_length(window, self._close)
        self._unread = window[len(window) - kept :]
        self._offset += len(window) - kept
        return None


@lru_cache
def _patterns(close: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    tag = re.escape(close)
    return (
        re.compile(f'"|{tag}'),
        re.compile(rf'"|\\.|[\x00-\x1f]|{tag}', re.DOTALL),
        re.compile(tag),
    )


class AfterJson:
    """The body ends at the first closing tag that stands in no JSON string.

    JSON allows no line break in a string: one there means that a quote is missing, and that strings tell
    nothing here. Then the first closing tag of all ends the body, and so it is if the text is over.
    """

    def __init__(self, close: str) -> None:
        self._close = close
        self._outside, self._inside, self._anywhere = _patterns(close)
        self._tokens = self._outside
        self._unread = ""
        self._offset = 0
        self._fallback: End | None = None

    @property
    def fallback(self) -> End | None:
        """The first closing tag, if it seemed to stand in a string."""
        return self._fallback

    def feed(self, text: str, at: int = 0) -> End | None:
        """See `EndFinder`; `at`: where in the first text the body begins."""
        window = self._unread + text
        while token := self._tokens.search(window, at):
            at = token.end()
            end = self._take(token)
            if end is not None:
                return end
        kept = partial_length(window, self._close)
        if self._tokens is self._inside and window.endswith("\\") and at < len(window):
            kept = 1
        kept = min(kept, len(window) - at)
        self._unread = window[len(window) - kept :]
        self._offset += len(window) - kept
        return None

    def _take(self, token: re.Match[str]) -> End | None:
        """One quote, escape, line break or closing tag."""
        found = token[0]
        if found == '"':
            self._tokens = self._outside if self._tokens is self._inside else self._inside
        elif found == self._close:
            end = End(self._offset + token.start(), self._offset + token.end(), self._offset + token.end())
            if self._tokens is not self._inside:
                return end
            self._fallback = self._fallback or end
        elif found < " ":
            self._tokens = self._anywhere
            return self._fallback and self._fallback._replace(read=self._offset + token.end())
        return None
