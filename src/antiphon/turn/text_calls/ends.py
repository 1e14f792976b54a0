"""Find the end of a call's body while the text arrives. Each character is looked at once.

`AtTag` ends at the closing tag, `AfterJson` at the closing tag outside of JSON strings, `AtBalance` where the
brackets are balanced. All three keep the unread rest of a delta (half a tag, half an escape) for the next
one.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol


class End(NamedTuple):
    """Where a body ends without (`body`) and with (`span`) its closing tag, and how far the finder had
    read."""

    body: int
    span: int
    read: int


class NoEnd(NamedTuple):
    """The text is not a body; the finder had read this far."""

    read: int


class EndFinder(Protocol):
    """Finds the end of one body."""

    def feed(self, text: str) -> End | NoEnd | None:
        """Read more of the body, perhaps beyond its end. Positions count from the body's beginning."""
        ...

    @property
    def fallback(self) -> End | None:
        """The end to assume if the text is over and `feed` has found none."""
        ...


def partial_length(text: str, tag: str) -> int:
    """The length of the longest suffix of `text` that is a proper prefix of `tag`."""
    at = text.find(tag[0], max(0, len(text) - len(tag) + 1))
    while at >= 0:
        if tag.startswith(text[at:]):
            return len(text) - at
        at = text.find(tag[0], at + 1)
    return 0


class AtTag:
    """The body ends at the first closing tag."""

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
        read = len(window) - partial_length(window, self._close)
        self._unread = window[read:]
        self._offset += read
        return None


@lru_cache
def _json_patterns(close: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Tokens outside of strings, inside of strings, and where strings are ignored."""
    tag = re.escape(close)
    return (
        re.compile(f'"|{tag}'),
        re.compile(rf'"|\\.|[\x00-\x1f]|{tag}', re.DOTALL),
        re.compile(tag),
    )


class AfterJson:
    """The body ends at the first closing tag outside of JSON strings.

    A JSON string cannot contain a line break. A line break in one means that a quote is missing, and that the
    quotes of this body are useless: then the body ends at its first closing tag. The same tag is the
    fallback.
    """

    def __init__(self, close: str) -> None:
        self._close = close
        self._outside, self._inside, self._anywhere = _json_patterns(close)
        self._tokens = self._outside
        self._unread = ""
        self._offset = 0
        self._fallback: End | None = None

    @property
    def fallback(self) -> End | None:
        """The first closing tag, if it was inside of a string."""
        return self._fallback

    def feed(self, text: str, at: int = 0) -> End | None:
        """See `EndFinder`; `at`: where in the first text the body begins."""
        window = self._unread + text
        while token := self._tokens.search(window, at):
            at = token.end()
            end = self._take(token)
            if end is not None:
                return end
        held = partial_length(window, self._close)
        if self._tokens is self._inside and window.endswith("\\") and at < len(window):
            held = 1
        read = len(window) - min(held, len(window) - at)
        self._unread = window[read:]
        self._offset += read
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


class Lexis(NamedTuple):
    """The tokens of one context, and a pattern for the suffix of a text that may be part of a token."""

    tokens: re.Pattern[str]
    part: re.Pattern[str]


class Brackets(NamedTuple):
    """Brackets and quotes outside of strings; quotes, escapes and forbidden line breaks inside."""

    outside: Lexis
    inside: Mapping[str, Lexis]
    """By the quote that begins the string."""


_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_BETWEEN_OBJECTS = re.compile(r"[\s;]*+(?P<other>[^{])?")
_ESCAPE = re.compile(r"\\\Z")
JSON = Brackets(
    Lexis(re.compile(r'["{}\[\]]'), re.compile(r"(?!)")),
    {'"': Lexis(re.compile(r'"|\\.|[\x00-\x1f]', re.DOTALL), _ESCAPE)},
)
PYTHON = Brackets(
    # A quote at the end of the text may be the first of three.
    Lexis(
        re.compile(r"""\"{3}|'{3}|"(?!"?\Z)|'(?!'?\Z)|[()\[\]{}]"""), re.compile(r"""(?:"{1,2}|'{1,2})\Z""")
    ),
    {
        '"': Lexis(re.compile(r'"|\\.|[\r\n]', re.DOTALL), _ESCAPE),
        "'": Lexis(re.compile(r"'|\\.|[\r\n]", re.DOTALL), _ESCAPE),
        '"""': Lexis(re.compile(r'"""|\\.', re.DOTALL), re.compile(r'(?:\\|"{1,2})\Z')),
        "'''": Lexis(re.compile(r"'''|\\.", re.DOTALL), re.compile(r"(?:\\|'{1,2})\Z")),
    },
)


class AtBalance:
    """The body ends where its first bracket is closed.

    With `several`, it ends behind the last of several objects that only white space and semicolons separate.
    One bracket that closes nothing is skipped; the reader repairs it. `inside`: brackets that are already
    open.
    """

    fallback = None

    def __init__(self, brackets: Brackets = JSON, *, inside: str = "", several: bool = False) -> None:
        self._brackets = brackets
        self._lexis = brackets.outside
        self._quote: str = ""
        self._open = [_CLOSERS[bracket] for bracket in inside]
        self._several = several
        self._balanced_at = 0
        self._strays = 0
        self._unread = ""
        self._offset = 0

    def feed(self, text: str, at: int = 0) -> End | NoEnd | None:
        """See `EndFinder`; `at`: where in the first text the body begins."""
        window = self._unread + text
        while at < len(window):
            gap = None if self._open or not self._balanced_at else _BETWEEN_OBJECTS.match(window, at)
            if gap and gap["other"]:
                return End(self._balanced_at, self._balanced_at, self._offset + gap.start("other"))
            token = self._lexis.tokens.search(window, at)
            if token is None:
                break
            at = token.end()
            end = self._take(token[0], self._offset + at)
            if end is not None:
                return end
        part = self._lexis.part.search(window, at)
        read = part.start() if part else len(window)
        self._unread = window[read:]
        self._offset += read
        return None

    def _take(self, found: str, position: int) -> End | NoEnd | None:
        """One quote, escape, bracket, or line break in a string."""
        if found == self._quote:
            self._quote = ""
            self._lexis = self._brackets.outside
        elif self._lexis is not self._brackets.outside:
            return NoEnd(position) if found < " " else None  # a quote is missing
        elif found in self._brackets.inside:
            self._quote = found
            self._lexis = self._brackets.inside[found]
        elif found in _CLOSERS:
            self._open.append(_CLOSERS[found])
        else:
            return self._close(found, position)
        return None

    def _close(self, bracket: str, position: int) -> End | NoEnd | None:
        if not self._open or self._open[-1] != bracket:
            self._strays += 1
            return NoEnd(position) if self._strays > 1 else None
        self._open.pop()
        if self._open:
            return None
        self._balanced_at = position
        return None if self._several else End(position, position, position)
