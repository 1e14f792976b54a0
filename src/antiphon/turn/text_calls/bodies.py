"""The states in and behind a body:

Body      in a body, until its end
Tail      behind a call, where tags and brackets without a meaning may stand
Alone     behind calls that only count if nothing else is said
"""

from collections.abc import Sequence
from typing import NamedTuple

from antiphon.turn.text_calls.ends import End, partial_length
from antiphon.turn.text_calls.forms import Call, Form
from antiphon.turn.text_calls.scan import Scan

MAX_BODY = 4 * 1024 * 1024
"""Characters of a body; a longer one is text."""
MAX_BEHIND = 1024
"""Characters behind a call within which it must show what they are."""


class Body:
    """A body of one form."""

    holding = True

    def __init__(self, scan: Scan, form: Form, head: str) -> None:
        self._scan = scan
        self._form = form
        self._pieces = [head]
        self._head_size = self._size = len(head)
        self._limit = form.limit or MAX_BODY
        self._finder = form.ends()

    def read(self, text: str) -> str:
        """Collect, up to the end of the body or the limit of its size."""
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
        """The closing tag is missing, or half of it; the body may be whole all the same."""
        form, text = self._form, "".join(self._pieces)
        if not form.needs_close:
            half_tag = partial_length(text, form.close) if form.close else 0
            calls = self._calls(text[: len(text) - half_tag])
            if calls:
                self._scan.find(len(form.opening) + len(text), calls)
                self._scan.state = self._scan.plain
                return ""
        if self._finder.fallback is not None:
            return self._close(self._finder.fallback._replace(read=self._size - self._head_size))
        return self._give_up(self._size)

    def _close(self, end: End) -> str:
        """The body is over. What was read beyond its end is read again, by the next state."""
        scan, form = self._scan, self._form
        text, span = "".join(self._pieces), self._head_size + end.span
        calls = self._calls(text[: self._head_size + end.body])
        scan.state = scan.plain
        if calls is None:
            scan.say(form.opening + text[:span])
        elif form.leads:
            scan.state = Alone(scan, form, text[:span], calls)
        else:
            scan.find(len(form.opening) + span, calls)
            if form.tail or form.strays:
                scan.state = Tail(scan, form)
        return scan.read_again(text[span:], end.read - end.span)

    def _calls(self, body: str) -> Sequence[Call] | None:
        """The calls in the body, if all are of tools that there are."""
        tools = self._scan.tools
        calls = self._form.read(body, tools)
        return calls if calls and all(call.name in tools for call in calls) else None

    def _give_up(self, read: int) -> str:
        """It is no body, but there may be calls in what was taken for it."""
        self._scan.state = self._scan.plain
        self._scan.say(self._form.opening)
        return self._scan.read_again("".join(self._pieces), read)


class Behind(NamedTuple):
    """What stands behind a body."""

    stray: int
    """Where one bracket or comma too many ends; 0: there is none."""
    tags: int
    """Where the last tag without a meaning ends; 0: there is none."""
    rest: str
    """What follows, without white space."""


def _behind(text: str, form: Form) -> Behind:
    rest = text.lstrip()
    stray = tags = 0
    if rest and rest[0] in form.strays:
        stray = len(text) - len(rest) + 1
        rest = rest[1:].lstrip()
    for tag in form.tail:
        if rest.startswith(tag):
            tags = len(text) - len(rest) + len(tag)
            rest = rest[len(tag) :].lstrip()
    return Behind(stray, tags, rest)


def _may_go_on(rest: str, form: Form) -> bool:
    return not rest or any(tag.startswith(rest) for tag in form.tail)


class Tail:
    """Behind a call."""

    def __init__(self, scan: Scan, form: Form) -> None:
        self._scan = scan
        self._form = form
        self._held = ""

    @property
    def holding(self) -> bool:
        """Whether there is anything that may not count."""
        return bool(self._held)

    def read(self, text: str) -> str:
        """Leave out tags; and a stray bracket or comma, if another tag comes next."""
        self._held += text
        window = self._held[:MAX_BEHIND]
        behind = _behind(window, self._form)
        openings = self._scan.openings
        undecided = _may_go_on(behind.rest, self._form) or behind.rest in openings.parts
        if undecided and len(window) < MAX_BEHIND:
            return ""
        another = openings.tags.match(behind.rest) is not None
        return self._leave_out(max(behind.tags, behind.stray if another else 0))

    def end(self) -> str:
        """Nothing comes next."""
        behind = _behind(self._held, self._form)
        return self._leave_out(max(behind.tags, 0 if behind.rest else behind.stray))

    def _leave_out(self, size: int) -> str:
        if size:
            self._scan.find(size)
        self._scan.state = self._scan.plain
        return self._held[size:]


class Alone:
    """Behind calls that are all that was said."""

    holding = True

    def __init__(self, scan: Scan, form: Form, body: str, calls: Sequence[Call]) -> None:
        self._scan = scan
        self._form = form
        self._body = body
        self._calls = calls
        self._held = ""

    def read(self, text: str) -> str:
        """Wait for the end, or for a word."""
        self._held += text
        rest = _behind(self._held, self._form).rest
        if len(self._held) < MAX_BEHIND and _may_go_on(rest, self._form):
            return ""
        return self._give_up()

    def end(self) -> str:
        """No word came."""
        if _behind(self._held, self._form).rest:
            return self._give_up()
        self._scan.find(len(self._form.opening) + len(self._body) + len(self._held), self._calls)
        self._scan.state = self._scan.plain
        return ""

    def _give_up(self) -> str:
        self._scan.state = self._scan.plain
        self._scan.say(self._form.opening)
        return self._scan.read_again(self._body + self._held, len(self._body))
