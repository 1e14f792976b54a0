"""Where a body ends whose brackets tell it: JSON values, and Python lists of calls."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from antiphon.turn.text_calls.ends import End, NoEnd

_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_BETWEEN = re.compile(r"[\s;]*+(?P<other>[^{])?")
_NEVER = re.compile(r"(?!)")


class Lexis(NamedTuple):
    """What to look for."""

    tokens: re.Pattern[str]
    part: re.Pattern[str]
    """The end of a text that may be part of a token."""


class Grammar(NamedTuple):
    """Brackets and quotes outside of strings; quotes, escapes and forbidden line breaks inside."""

    outside: Lexis
    inside: Mapping[str, Lexis]
    """By the quote that the string began with."""


_ESCAPE = re.compile(r"\\\Z")
JSON = Grammar(
    Lexis(re.compile(r'["{}\[\]]'), _NEVER),
    {'"': Lexis(re.compile(r'"|\\.|[\x00-\x1f]', re.DOTALL), _ESCAPE)},
)
PYTHON = Grammar(
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
    """The body ends where its first bracket is closed; with `run`, behind the last of several objects that
    nothing but white space and semicolons part.

    One bracket that closes nothing is passed over, for the reader to repair. `inside`: brackets that are
    open already.
    """

    fallback = None

    def __init__(self, grammar: Grammar = JSON, *, inside: str = "", run: bool = False) -> None:
        self._grammar = grammar
        self._lexis = grammar.outside
        self._quote: str = ""
        self._open = [_CLOSERS[bracket] for bracket in inside]
        self._run = run
        self._whole = 0
        self._strays = 0
        self._unread = ""
        self._offset = 0

    def feed(self, text: str, at: int = 0) -> End | NoEnd | None:
        """See `EndFinder`; `at`: where in the first text the body begins."""
        window = self._unread + text
        while at < len(window):
            gap = None if self._open or not self._whole else _BETWEEN.match(window, at)
            if gap and gap["other"]:
                return End(self._whole, self._whole, self._offset + gap.start("other"))
            token = self._lexis.tokens.search(window, at)
            if token is None:
                break
            at = token.end()
            verdict = self._take(token[0], self._offset + at)
            if verdict is not None:
                return verdict
        part = self._lexis.part.search(window, at)
        read = part.start() if part else len(window)
        self._unread = window[read:]
        self._offset += read
        return None

    def _take(self, found: str, position: int) -> End | NoEnd | None:
        """One quote, escape, bracket, or line break in a string."""
        if found == self._quote:
            self._quote = ""
            self._lexis = self._grammar.outside
        elif self._lexis is not self._grammar.outside:
            return NoEnd(position) if found < " " else None  # a quote is missing
        elif found in self._grammar.inside:
            self._quote = found
            self._lexis = self._grammar.inside[found]
        elif found in _CLOSERS:
            self._open.append(_CLOSERS[found])
        else:
            return self._shut(found, position)
        return None

    def _shut(self, bracket: str, position: int) -> End | NoEnd | None:
        if not self._open or self._open[-1] != bracket:
            self._strays += 1
            return NoEnd(position) if self._strays > 1 else None
        self._open.pop()
        if self._open:
            return None
        self._whole = position
        return None if self._run else End(position, position, position)
