"""Find calls in text while it arrives. Text that cannot be part of a call is emitted at once.

The scanner is always in one state. A state reads a piece of text, emits what is certain, holds what is not,
may choose the next state, and returns the rest of the piece for that state:

    Start     before the first character, if some forms count only as the complete answer
    Plain     text is emitted; a suffix that may be part of an opening tag is held; opening tag → Head
    Head      after an opening tag, until the text shows which form follows: one form → Body; none → Plain, or
              Enclosed if the tags enclose something else
    Enclosed  text is emitted up to the closing tag → Plain
    Body      in a body, until its end is found: calls of known tools → Tail; otherwise the tag is text, and
              the body is read again → Plain
    Tail      after a call: tags and brackets without a meaning are dropped → Plain
    Sole      after calls that count only if nothing follows: end of the answer → calls; other text → Plain

Two things keep a hostile answer cheap. A body is collected in pieces and searched for its end incrementally,
so that each character is looked at once. And only `MAX_REREAD_CHARACTERS` of a turn are read a second time
after a state has given up; what lies beyond is text.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from antiphon.turn.text_calls.dialects import Form, Openings
from antiphon.turn.text_calls.ends import AtTag, End, partial_length
from antiphon.turn.text_calls.json_calls import Call, Tools

MAX_REREAD_CHARACTERS = 256 * 1024
MAX_HEAD_CHARACTERS = 1024
"""Within these, a body must match the beginning of a form."""
MAX_BODY_CHARACTERS = 4 * 1024 * 1024
MAX_TAIL_CHARACTERS = 1024
"""Within these, the text after a call must show what it is."""
_PIECE_CHARACTERS = 4096
"""Text is read in pieces of this size, so that many calls in one text cost linear time."""


class Found(Struct, frozen=True):
    """`size` characters that are not emitted as text: they are these calls, or have no meaning."""

    size: int
    calls: Sequence[Call] = ()


Token = str | Found


class State(Protocol):
    """A state of the scanner."""

    @property
    def holding(self) -> bool:
        """Whether text is held back."""
        ...

    def read(self, text: str) -> str:
        """Read some of the text; return the rest for the next state."""
        ...

    def end(self) -> str:
        """The text is over: settle the held text, or return it for another state."""
        ...


class TextScanner:
    """Scans the text of one turn."""

    def __init__(self, openings: Openings, tools: Tools) -> None:
        self.openings = openings
        self.tools = tools
        self.plain: State = Plain(self)
        self.state: State = Start(self) if openings.sole else self.plain
        self.at_line_start = True
        self._tokens: list[Token] = []
        self._rereadable = MAX_REREAD_CHARACTERS

    @property
    def holding(self) -> bool:
        """Whether text is held back that may become a call."""
        return self.state.holding

    @property
    def flowing(self) -> bool:
        """Whether text without the first character of a tag would be emitted unchanged."""
        watched = self.at_line_start and self.openings.start_lines
        return self.state is self.plain and not self.plain.holding and not watched

    def feed(self, text: str) -> list[Token]:
        """The tokens that this text makes certain."""
        self._read(text)
        return self._take_tokens()

    def finish(self, *, cut_off: bool) -> list[Token]:
        """Settle the held text.

        Calls may follow a tag that was never closed, so its text is read again; but not if the answer was cut
        off, because then they may be part of the incomplete call.
        """
        if cut_off:
            self._rereadable = 0
        while self.state.holding:
            self._read(self.state.end())
        return self._take_tokens()

    def _read(self, text: str) -> None:
        unread = _pieces(text)
        while unread:
            unread.extend(_pieces(self.state.read(unread.pop())))

    def _take_tokens(self) -> list[Token]:
        tokens, self._tokens = self._tokens, []
        return tokens

    # For the states

    def emit_text(self, text: str) -> None:
        if text:
            self._tokens.append(text)
            self.at_line_start = text[-1] == "\n"

    def emit_found(self, size: int, calls: Sequence[Call] = ()) -> None:
        self._tokens.append(Found(size, calls))
        self.at_line_start = False

    def reread(self, text: str, size: int) -> str:
        """The part of `text` that the next state reads; its first `size` characters were read before.

        They are emitted as text if too much was read twice already.
        """
        if size <= self._rereadable:
            self._rereadable -= size
            return text
        self.emit_text(text[:size])
        self.state = self.plain
        return text[size:]


def _pieces(text: str) -> list[str]:
    """The text in pieces, the first one last."""
    return [text[start : start + _PIECE_CHARACTERS] for start in range(0, len(text), _PIECE_CHARACTERS)][::-1]


class Start:
    """Before the first character that is not white space."""

    def __init__(self, scanner: TextScanner) -> None:
        self._scanner = scanner
        self._held = ""

    @property
    def holding(self) -> bool:
        """Whether part of an opening is held."""
        return bool(self._held)

    def read(self, text: str) -> str:
        """Look for the opening of a form that counts only as the complete answer."""
        window = self._held + text
        content = window.lstrip()
        self._scanner.emit_text(window[: len(window) - len(content)])
        self._held = ""
        for form in self._scanner.openings.sole:
            if content.startswith(form.opening):
                self._scanner.state = Head(self._scanner, (form,))
                return content[len(form.opening) :]
        if any(form.opening.startswith(content) for form in self._scanner.openings.sole):
            self._held = content
            return ""
        self._scanner.state = self._scanner.plain
        return content

    def end(self) -> str:
        """The held text is no opening."""
        self._scanner.state = self._scanner.plain
        return self._held


class Plain:
    """Text flows; the longest suffix that may be part of an opening tag is held."""

    def __init__(self, scanner: TextScanner) -> None:
        self._scanner = scanner
        self._held = ""

    @property
    def holding(self) -> bool:
        """Whether part of an opening tag is held."""
        return bool(self._held)

    def read(self, text: str) -> str:
        """Emit the text before an opening tag, or before a suffix that may become one."""
        scanner, window = self._scanner, self._held + text
        tag = scanner.openings.first_in(window, line_starts=scanner.at_line_start)
        if tag is not None:
            self._held = ""
            scanner.emit_text(window[: tag.start()])
            scanner.state = Head(scanner, scanner.openings.forms[tag[0]])
            return window[tag.end() :]
        certain = len(window) - scanner.openings.partial_tag_length(window)
        scanner.emit_text(window[:certain])
        self._held = window[certain:]
        return ""

    def end(self) -> str:
        """The held text is no tag."""
        self._scanner.emit_text(self._held)
        self._held = ""
        return ""


class Head:
    """After an opening tag, until the text shows which of its forms follows."""

    holding = True

    def __init__(self, scanner: TextScanner, forms: tuple[Form, ...]) -> None:
        self._scanner = scanner
        self._forms = forms
        self._opening = forms[0].opening
        self._head = ""

    def read(self, text: str) -> str:
        """Wait until one form is left, or none."""
        self._head += text
        window = self._head[:MAX_HEAD_CHARACTERS]
        for form in self._forms:
            begin = form.begins.match(window)
            if begin is not None:
                self._scanner.state = Body(self._scanner, form, window[: begin.end()])
                return self._head[begin.end() :]
        content = window.lstrip()
        undecided = any(form.may_begin.fullmatch(window) for form in self._forms)
        if len(window) < MAX_HEAD_CHARACTERS and (undecided or self._opening.startswith(content)):
            return ""
        return self._give_up(nested=content.startswith(self._opening))

    def end(self) -> str:
        """No body followed."""
        return self._give_up(nested=False)

    def _give_up(self, *, nested: bool) -> str:
        """The tag is text, and so is everything up to its closing tag if it encloses something else."""
        form = self._forms[0]
        self._scanner.state = self._scanner.plain
        if form.sole_content:
            return self._opening + self._head
        self._scanner.emit_text(self._opening)
        if form.encloses or (nested and form.close):
            close = "\n" + form.close if form.starts_line else form.close
            self._scanner.state = Enclosed(self._scanner, close)
        return self._head


class Enclosed:
    """Passes all text up to a closing tag."""

    holding = False

    def __init__(self, scanner: TextScanner, close: str) -> None:
        self._scanner = scanner
        self._finder = AtTag(close)
        self._emitted = 0

    def read(self, text: str) -> str:
        """Emit the text, and stop after the closing tag."""
        end = self._finder.feed(text)
        size = len(text) if end is None else end.span - self._emitted
        self._emitted += size
        self._scanner.emit_text(text[:size])
        if end is not None:
            self._scanner.state = self._scanner.plain
        return text[size:]

    def end(self) -> str:
        """Nothing is held."""
        return ""


class Body:
    """In a body of one form, until its end."""

    holding = True

    def __init__(self, scanner: TextScanner, form: Form, head: str) -> None:
        self._scanner = scanner
        self._form = form
        self._pieces = [head]
        self._head_size = self._size = len(head)
        self._limit = form.limit or MAX_BODY_CHARACTERS
        self._finder = form.ends()

    def read(self, text: str) -> str:
        """Collect text up to the end of the body or the limit of its size."""
        room = self._limit - self._size
        if not room:
            return self._give_up(self._size) + text
        piece = text[:room]
        self._pieces.append(piece)
        self._size += len(piece)
        end = self._finder.feed(piece)
        if end is None:
            return text[room:]
        rest = self._close(end) if isinstance(end, End) else self._give_up(self._head_size + end.read)
        return rest + text[room:]

    def end(self) -> str:
        """The closing tag or part of it is missing; the body may be complete nevertheless."""
        form, text = self._form, "".join(self._pieces)
        if not form.needs_close:
            half_tag = partial_length(text, form.close) if form.close else 0
            calls = self._calls(text[: len(text) - half_tag])
            if calls:
                self._scanner.emit_found(len(form.opening) + len(text), calls)
                self._scanner.state = self._scanner.plain
                return ""
        if self._finder.fallback is not None:
            return self._close(self._finder.fallback._replace(read=self._size - self._head_size))
        return self._give_up(self._size)

    def _close(self, end: End) -> str:
        """Read the calls. The next state reads the text after their end again."""
        scanner, form = self._scanner, self._form
        text, span = "".join(self._pieces), self._head_size + end.span
        calls = self._calls(text[: self._head_size + end.body])
        scanner.state = scanner.plain
        if calls is None:
            scanner.emit_text(form.opening + text[:span])
        elif form.sole_content:
            scanner.state = Sole(scanner, form, text[:span], calls)
        else:
            scanner.emit_found(len(form.opening) + span, calls)
            if form.tail or form.strays:
                scanner.state = Tail(scanner, form)
        return scanner.reread(text[span:], end.read - end.span)

    def _calls(self, body: str) -> Sequence[Call] | None:
        """The calls in the body, if all are of known tools."""
        tools = self._scanner.tools
        calls = self._form.read(body, tools)
        return calls if calls and all(call.name in tools for call in calls) else None

    def _give_up(self, read: int) -> str:
        """This is no body, but it may contain calls."""
        self._scanner.state = self._scanner.plain
        self._scanner.emit_text(self._form.opening)
        return self._scanner.reread("".join(self._pieces), read)


class _Tail(NamedTuple):
    """The text after a body."""

    stray: int
    """The end of one stray bracket or comma; 0 without one."""
    tags: int
    """The end of the last tag without a meaning; 0 without one."""
    rest: str
    """The text after those, without leading white space."""

    def may_continue(self, form: Form) -> bool:
        return not self.rest or any(tag.startswith(self.rest) for tag in form.tail)


def _tail_of(text: str, form: Form) -> _Tail:
    rest = text.lstrip()
    stray = tags = 0
    if rest and rest[0] in form.strays:
        stray = len(text) - len(rest) + 1
        rest = rest[1:].lstrip()
    for tag in form.tail:
        if rest.startswith(tag):
            tags = len(text) - len(rest) + len(tag)
            rest = rest[len(tag) :].lstrip()
    return _Tail(stray, tags, rest)


class Tail:
    """After a call, where tags and brackets without a meaning may follow."""

    def __init__(self, scanner: TextScanner, form: Form) -> None:
        self._scanner = scanner
        self._form = form
        self._held = ""

    @property
    def holding(self) -> bool:
        """Whether text is held that may have no meaning."""
        return bool(self._held)

    def read(self, text: str) -> str:
        """Drop tags, and a stray bracket or comma if another opening tag follows it."""
        self._held += text
        window = self._held[:MAX_TAIL_CHARACTERS]
        tail = _tail_of(window, self._form)
        openings = self._scanner.openings
        undecided = tail.may_continue(self._form) or tail.rest in openings.prefixes
        if undecided and len(window) < MAX_TAIL_CHARACTERS:
            return ""
        opening_follows = openings.tags.match(tail.rest) is not None
        return self._drop(max(tail.tags, tail.stray if opening_follows else 0))

    def end(self) -> str:
        """Drop a stray if nothing follows it."""
        tail = _tail_of(self._held, self._form)
        return self._drop(max(tail.tags, 0 if tail.rest else tail.stray))

    def _drop(self, size: int) -> str:
        if size:
            self._scanner.emit_found(size)
        self._scanner.state = self._scanner.plain
        return self._held[size:]


class Sole:
    """After calls that count only if nothing follows."""

    holding = True

    def __init__(self, scanner: TextScanner, form: Form, body: str, calls: Sequence[Call]) -> None:
        self._scanner = scanner
        self._form = form
        self._body = body
        self._calls = calls
        self._held = ""

    def read(self, text: str) -> str:
        """Wait for the end of the answer, or for other text."""
        self._held += text
        tail = _tail_of(self._held, self._form)
        if len(self._held) < MAX_TAIL_CHARACTERS and tail.may_continue(self._form):
            return ""
        return self._give_up()

    def end(self) -> str:
        """Nothing followed: the calls count."""
        if _tail_of(self._held, self._form).rest:
            return self._give_up()
        self._scanner.emit_found(len(self._form.opening) + len(self._body) + len(self._held), self._calls)
        self._scanner.state = self._scanner.plain
        return ""

    def _give_up(self) -> str:
        self._scanner.state = self._scanner.plain
        self._scanner.emit_text(self._form.opening)
        return self._scanner.reread(self._body + self._held, len(self._body))
