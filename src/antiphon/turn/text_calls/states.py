"""The states in which text is read. A state reads some text and returns the rest, which the next one reads:

Leading   nothing but white space was said; a form that only counts at the beginning may follow
Plain     text flows; the longest end that may be part of an opening tag is held back
Head      behind an opening tag, until the body shows which form it has
Body      in a body, until its end
Tail      behind a call, where a closing tag without an opening one may stand
Passing   text flows up to a closing tag, because the tags enclose something else
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from antiphon.turn.text_calls.ends import AtTag, End, partial_length
from antiphon.turn.text_calls.forms import Call, Form, Tools
from antiphon.turn.text_calls.openings import Openings

MAX_BODY = 4 * 1024 * 1024
"""Characters of a body; a longer one is text."""
MAX_HEAD = 1024
"""Characters within which a body must show which form it has."""


class Found(Struct, frozen=True):
    """Text that is not said: `size` characters that are these calls, or a tag behind them."""

    size: int
    calls: Sequence[Call] = ()


Token = str | Found


class State(Protocol):
    """What the scanner does with text."""

    @property
    def holding(self) -> bool:
        """Whether text is held back."""
        ...

    def read(self, text: str) -> str:
        """Read some of the text; the rest is for the state that follows."""
        ...

    def end(self) -> str:
        """The text is over: settle what is held, or return it for another state."""
        ...


class Scan:
    """What the states of one turn share."""

    def __init__(self, openings: Openings, tools: Tools) -> None:
        self.openings = openings
        self.tools = tools
        self.state: State = Leading(self) if openings.leading else Plain(self)
        self.tokens: list[Token] = []
        self.rereadable = MAX_BODY
        """Characters that may still be read a second time: this keeps the cost linear."""

    def say(self, text: str) -> None:
        """It is text."""
        if text:
            self.tokens.append(text)

    def find(self, size: int, calls: Sequence[Call] = ()) -> None:
        """It is calls, or a tag without a meaning."""
        self.tokens.append(Found(size, calls))


class Leading:
    """Before the first word."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._held = ""

    @property
    def holding(self) -> bool:
        """Whether there is a part of an opening."""
        return bool(self._held)

    def read(self, text: str) -> str:
        """Look for an opening as the first word."""
        window = self._held + text
        word = window.lstrip()
        self._scan.say(window[: len(window) - len(word)])
        self._held = ""
        for form in self._scan.openings.leading:
            if word.startswith(form.opening):
                self._scan.state = Head(self._scan, (form,))
                return word[len(form.opening) :]
        if any(form.opening.startswith(word) for form in self._scan.openings.leading):
            self._held = word
            return ""
        self._scan.state = Plain(self._scan)
        return word

    def end(self) -> str:
        """It was a word like others."""
        self._scan.state = Plain(self._scan)
        return self._held


class Plain:
    """Text that is said."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._held = ""

    @property
    def holding(self) -> bool:
        """Whether there is a part of an opening tag."""
        return bool(self._held)

    def read(self, text: str) -> str:
        """Say what comes before an opening tag, or before what may become one."""
        scan, window = self._scan, self._held + text
        tag = scan.openings.tags.search(window)
        if tag is not None:
            scan.say(window[: tag.start()])
            scan.state = Head(scan, scan.openings.forms[tag[0]])
            return window[tag.end() :]
        kept = scan.openings.part_at_end(window)
        scan.say(window[: len(window) - kept])
        self._held = window[len(window) - kept :]
        return ""

    def end(self) -> str:
        """It was no tag."""
        self._scan.say(self._held)
        self._held = ""
        return ""


class Head:
    """The beginning of a body, which several forms may share."""

    holding = True

    def __init__(self, scan: Scan, forms: tuple[Form, ...]) -> None:
        self._scan = scan
        self._forms = forms
        self._opening = forms[0].opening
        self._head = ""

    def read(self, text: str) -> str:
        """Wait until one form is left, or none."""
        self._head += text
        window = self._head[:MAX_HEAD]
        for form in self._forms:
            begin = form.begins.match(window)
            if begin is not None:
                self._scan.state = Body(self._scan, form, window[: begin.end()])
                return self._head[begin.end() :]
        word = window.lstrip()
        undecided = any(form.may_begin.fullmatch(window) for form in self._forms)
        if len(window) < MAX_HEAD and (undecided or self._opening.startswith(word)):
            return ""
        return self._give_up(nested=word.startswith(self._opening))

    def end(self) -> str:
        """It was an opening tag without a body."""
        return self._give_up(nested=False)

    def _give_up(self, *, nested: bool) -> str:
        """The tag is text, and so is all up to its closing tag if it encloses something else."""
        form = self._forms[0]
        if form.leads:
            self._scan.state = Plain(self._scan)
            return self._opening + self._head
        self._scan.say(self._opening)
        if form.encloses or (nested and form.close):
            self._scan.state = Passing(self._scan, form.close)
        else:
            self._scan.state = Plain(self._scan)
        return self._head


class Body:
    """A body of one form."""

    holding = True

    def __init__(self, scan: Scan, form: Form, head: str) -> None:
        self._scan = scan
        self._form = form
        self._pieces = [head]
        self._head_size = self._size = len(head)
        self._finder = form.ends()

    def read(self, text: str) -> str:
        """Collect, up to the end of the body or the limit of its size."""
        room = MAX_BODY - self._size
        if not room:
            self._say_all()
            return text
        piece = text[:room]
        self._pieces.append(piece)
        self._size += len(piece)
        end = self._finder.feed(piece)
        return text[room:] if end is None else self._close(end) + text[room:]

    def end(self) -> str:
        """The closing tag is missing, or half of it; the body may be whole all the same."""
        form, text = self._form, "".join(self._pieces)
        if not form.needs_close:
            half_tag = partial_length(text, form.close) if form.close else 0
            if self._found(text[: len(text) - half_tag], len(text)):
                return ""
        if self._finder.fallback is not None:
            return self._close(self._finder.fallback._replace(read=self._size - self._head_size))
        self._say_all()
        return ""

    def _close(self, end: End) -> str:
        """The body is over. What was read beyond its end is read again, by the next state."""
        text, span = "".join(self._pieces), self._head_size + end.span
        self._scan.rereadable -= end.read - end.span
        if self._scan.rereadable < 0:
            self._say_all()
            return ""
        if not self._found(text[: self._head_size + end.body], span):
            self._say_all(span)
        return text[span:]

    def _found(self, body: str, size: int) -> bool:
        """Whether the body holds calls of tools that there are."""
        scan = self._scan
        calls = self._form.read(body, scan.tools)
        if not calls or any(call.name not in scan.tools for call in calls):
            return False
        scan.find(len(self._form.opening) + size, calls)
        scan.state = Tail(scan, self._form.tail) if self._form.tail else Plain(scan)
        return True

    def _say_all(self, size: int | None = None) -> None:
        self._scan.say(self._form.opening + "".join(self._pieces)[:size])
        self._scan.state = Plain(self._scan)


class Tail:
    """Behind a call."""

    def __init__(self, scan: Scan, tag: str) -> None:
        self._scan = scan
        self._tag = tag
        self._held = ""

    @property
    def holding(self) -> bool:
        """Whether there is white space, or a part of the tag."""
        return bool(self._held)

    def read(self, text: str) -> str:
        """Leave out the tag, if it comes next."""
        self._held += text
        window = self._held[:MAX_HEAD]
        word = window.lstrip()
        if word.startswith(self._tag):
            size = len(window) - len(word) + len(self._tag)
            self._scan.find(size)
            self._scan.state = Plain(self._scan)
            return self._held[size:]
        if len(window) < MAX_HEAD and self._tag.startswith(word):
            return ""
        return self.end()

    def end(self) -> str:
        """It did not come."""
        self._scan.state = Plain(self._scan)
        return self._held


class Passing:
    """Text that is said up to a closing tag, whatever it holds."""

    holding = False

    def __init__(self, scan: Scan, close: str) -> None:
        self._scan = scan
        self._finder = AtTag(close)
        self._passed = 0

    def read(self, text: str) -> str:
        """Say it, and notice the closing tag."""
        end = self._finder.feed(text)
        size = len(text) if end is None else end.span - self._passed
        self._passed += size
        self._scan.say(text[:size])
        if end is not None:
            self._scan.state = Plain(self._scan)
        return text[size:]

    def end(self) -> str:
        """Nothing is held."""
        return ""
