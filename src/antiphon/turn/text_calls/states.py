"""The states in which text is read. A state reads some text and returns the rest, which the next one reads:

Leading   nothing but white space was said; a form that only counts as the whole answer may follow
Plain     text flows; the longest end that may be part of an opening tag is held back
Head      behind an opening tag, until the body shows which form it has
Passing   text flows up to a closing tag, because the tags enclose something else

`bodies.py` has those that follow a head.
"""

from antiphon.turn.text_calls.bodies import Body
from antiphon.turn.text_calls.ends import AtTag
from antiphon.turn.text_calls.forms import Form, Tools
from antiphon.turn.text_calls.openings import Openings
from antiphon.turn.text_calls.scan import Scan

MAX_HEAD = 1024
"""Characters within which a body must show which form it has."""


def begin(openings: Openings, tools: Tools) -> Scan:
    """Before the first character of a turn."""
    scan = Scan(openings, tools)
    scan.plain = Plain(scan)
    scan.state = Leading(scan) if openings.leading else scan.plain
    return scan


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
        self._scan.state = self._scan.plain
        return word

    def end(self) -> str:
        """It was a word like others."""
        self._scan.state = self._scan.plain
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
        tag = scan.openings.first_in(window, line_starts=scan.line_starts)
        if tag is not None:
            self._held = ""
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
        self._scan.state = self._scan.plain
        if form.leads:
            return self._opening + self._head
        self._scan.say(self._opening)
        if form.encloses or (nested and form.close):
            close = "\n" + form.close if form.starts_line else form.close
            self._scan.state = Passing(self._scan, close)
        return self._head


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
            self._scan.state = self._scan.plain
        return text[size:]

    def end(self) -> str:
        """Nothing is held."""
        return ""
