"""Citations: markers such as `[3]` are cut out of the text and become annotations. Sans-IO.

The model has been shown numbered passages (`function_forms/file_searches.py`) and cites them by their
numbers: `[1]`, `[1, 2]`, or in the brackets that some models prefer, `【1】`. Wherever the text is split into
deltas, the result is the same; only what may be a marker is held. Text stays as it is

- inside code: a fenced block, or between backticks in one line;
- directly after an ASCII letter, digit or bracket, where `a[1]` is an index (the model is asked to leave a
  space);
- before `(`, because `[1](…)` is a link;
- if one of the numbers belongs to no passage.

A page of the web is cited as OpenAI does it: a link in parentheses takes the place of its marker, and the
annotation covers that link.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from antiphon.protocol.content import JsonObject, Logprob
from antiphon.turn.chunks import AnnotationAdded, Chunk, TextDelta
from antiphon.turn.function_forms.file_searches import SOURCE, Sources

_NUMBERS = r"\d{1,4}(?:, ?\d{1,4}){0,7}"
_MARKER = re.compile(rf"\[({_NUMBERS})\]|【({_NUMBERS})(?:†[^】\n]{{0,24}})?】")
_BEGINNING = re.compile(rf"\[(?:{_NUMBERS}(?:, ?)?)?|【(?:{_NUMBERS}(?:, ?|†[^】\n]{{0,24}})?)?")
_TOKEN = re.compile(r"`+|\n|\[|【")
_SAFE_IN_LINK = "/:?#@!$&'*+,;=%-._~"
_BRACKETS = re.compile(r"[\[\]()\s]")
_NUMBER = re.compile(r"\d+")
_INDEXED = re.compile(r"[A-Za-z0-9_\])]")
"""What stands directly before the `[` of an index."""


class _Code:
    """Whether the text is inside code: a fence, or a span between runs of backticks of one length."""

    __slots__ = ("_fence", "_line_blank", "_run", "_run_begins_line", "_span")

    def __init__(self) -> None:
        self._fence = self._span = 0
        self._run = 0
        """Backticks at the end of the text so far: there may be more."""
        self._run_begins_line = False
        self._line_blank = True

    @property
    def inside(self) -> bool:
        """Whether the next character is code. Valid if it is no backtick."""
        self._end_run()
        return bool(self._fence or self._span)

    def plain(self, text: str) -> None:
        """Text without backticks and newlines."""
        if text:
            self._end_run()
            self._line_blank = self._line_blank and not text.strip()

    def newline(self) -> None:
        """A span does not go beyond its line."""
        self._end_run()
        self._span, self._line_blank = 0, True

    def backticks(self, count: int) -> None:
        """A run of backticks, or more of one."""
        if not self._run:
            self._run_begins_line = self._line_blank
        self._run += count
        self._line_blank = False

    def _end_run(self) -> None:
        run, self._run = self._run, 0
        if not run:
            return
        if self._fence:
            if run >= self._fence and self._run_begins_line:
                self._fence = 0
        elif self._span:
            self._span = 0 if run == self._span else self._span
        elif run >= 3 and self._run_begins_line:
            self._fence = run
        else:
            self._span = run


class _Found(NamedTuple):
    """A marker, or text that may become one: where it ends, and its passages."""

    end: int
    cited: Sequence[JsonObject] = ()


class CitationCutter:
    """Cuts the markers out of one message."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._held = ""
        self._logprobs: list[Logprob] = []
        """Those of the tokens that are not passed on yet."""
        self._code = _Code()
        self._last = ""
        """The last character of the text so far; empty after a marker."""

    def feed(self, chunk: TextDelta) -> list[Chunk]:
        """The text that passes on, and its citations."""
        self._logprobs += chunk.logprobs
        return self._cut(self._held + chunk.text, ended=False)

    def end(self) -> list[Chunk]:
        """The message has ended: nothing more is held."""
        return self._cut(self._held, ended=True) if self._held else []

    def _cut(self, text: str, *, ended: bool) -> list[Chunk]:
        self._held = ""
        passed: list[Chunk] = []
        begun = position = 0
        """Where the text begins that is not passed yet, and where it is not read yet."""
        for token in _TOKEN.finditer(text):
            start = token.start()
            if start < position:
                continue
            self._read(text[position:start])
            position = start
            found = self._marker(text, start, ended) if token[0] in "[【" else None
            if found is None:
                self._read_token(token[0])
                position = token.end()
            elif found.end < 0:
                self._held = text[start:]
                text = text[:start]
                break
            else:
                self._pass(text[begun:start], passed)
                passed += _citations(found.cited)
                self._last = ""
                self._code.plain("x")
                begun = position = found.end
        self._read(text[position:])
        self._pass(text[begun:], passed)
        return passed

    def _marker(self, text: str, start: int, ended: bool) -> _Found | None:
        """The marker that begins here; None if there is none; an end of -1 if that is not known yet."""
        if self._code.inside or (text[start] == "[" and self._last and _INDEXED.match(self._last)):
            return None
        marker = _MARKER.match(text, start)
        if marker is None:
            undecided = not ended and _BEGINNING.fullmatch(text, start)
            return _Found(-1) if undecided else None
        if marker.end() == len(text) and not ended:
            return _Found(-1)  # a link may follow
        if text[marker.end() : marker.end() + 1] == "(":
            return None
        cited = [*self._cited(marker[1] or marker[2])]
        return None if None in cited else _Found(marker.end(), [one for one in cited if one is not None])

    def _cited(self, numbers: str) -> Iterator[JsonObject | None]:
        for number in dict.fromkeys(_NUMBER.findall(numbers)):
            yield self._sources.cited(int(number))

    def _read(self, text: str) -> None:
        if text:
            self._code.plain(text)
            self._last = text[-1]

    def _read_token(self, token: str) -> None:
        if token == "\n":
            self._code.newline()
        elif token[0] == "`":
            self._code.backticks(len(token))
        else:
            self._code.plain(token)
        self._last = token[-1]

    def _pass(self, text: str, passed: list[Chunk]) -> None:
        if text:
            logprobs, self._logprobs = tuple(self._logprobs), []
            passed.append(TextDelta(text, logprobs))


def _citations(cited: Sequence[JsonObject]) -> Iterator[Chunk]:
    """The chunks in the place of a marker."""
    linked: set[str] = set()
    for result in cited:
        if "url" not in result:
            yield AnnotationAdded(file_citation(result))
            continue
        url, title = str(result["url"]), str(result.get("title") or "")
        if url in linked:
            continue
        link = _link(url)
        yield TextDelta(f" {link}" if linked else link)
        linked.add(url)
        yield AnnotationAdded({"type": "url_citation", "url": url, "title": title}, len(link))


def _link(url: str) -> str:
    """A page as a link in parentheses; its text is the host."""
    try:
        host = urlsplit(url).hostname or url
    except ValueError:
        host = url
    target = quote(url, safe=_SAFE_IN_LINK)
    return f"([{_BRACKETS.sub('', host.removeprefix('www.'))}]({target}))"


def file_citation(result: JsonObject) -> JsonObject:
    """The annotation; its index is that of the text so far, which the message knows."""
    citation: JsonObject = {
        "type": "file_citation",
        "file_id": result.get("file_id") or "",
        "filename": result.get("filename") or "",
    }
    return {**citation, SOURCE: result[SOURCE]} if SOURCE in result else citation
