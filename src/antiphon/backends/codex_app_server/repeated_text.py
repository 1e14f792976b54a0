"""`RepeatedText`: the text of one response, made of the messages of codex. Sans-IO."""

from antiphon.errors import BackendRefused


class RepeatedText:
    """Joins the messages of codex to one text, with blank lines between them.

    When codex loses the connection to its model, it repeats the request, and the model starts over.
    Emitted text cannot be withdrawn: the next message must begin with the text of the last one, which is not
    repeated. If the last one was complete, the model may also add no text: some models call a tool after it.
    """

    def __init__(self) -> None:
        self._emitted: list[str] = []
        self._message = ""
        self._current: list[str] = []
        self._streamed: set[str] = set()
        self._unfinished = False
        self._fresh = False
        self._owed = ""
        self._repeated = 0
        self._owing = False

    @property
    def text(self) -> str:
        """All emitted text."""
        return "".join(self._emitted)

    @property
    def owing(self) -> bool:
        """Whether the model must still repeat the emitted part of a broken message."""
        return self.repeating and self._owing

    @property
    def repeating(self) -> bool:
        """Whether the next text, if any, must repeat emitted text."""
        return bool(self._owed)

    def delta(self, message: str, text: str) -> str:
        """Take a piece of a message; returns the text to emit. Raises if it differs from the emitted text."""
        self._streamed.add(message)
        return self._add(message, text)

    def completed(self, message: str, text: str) -> str:
        """End a message; returns the text that its pieces did not contain."""
        new = "" if message in self._streamed else self._add(message, text)
        if self.repeating:
            raise answers_differ()
        if message == self._message:
            self._unfinished = False
        return new

    def interrupted(self) -> None:
        """Codex has lost its model, and repeats the request."""
        if not self.repeating:
            self._owing = self._unfinished
        if self._unfinished or self._fresh:
            self._owed, self._repeated = "".join(self._current), 0
            self._streamed.discard(self._message)

    def settled(self) -> None:
        """The model call has ended: none of its text will be repeated."""
        if self.owing:
            raise answers_differ()
        self._owed, self._fresh = "", False

    def _add(self, message: str, text: str) -> str:
        if message != self._message and not self.repeating:
            self._current = []
        self._message, self._unfinished = message, True
        new = self._new_part(text)
        if not new:
            return ""
        parting = "\n\n" if self._emitted and not self._current else ""
        self._current.append(new)
        self._emitted.append(parting + new)
        self._fresh = True
        return parting + new

    def _new_part(self, text: str) -> str:
        size = min(len(text), len(self._owed) - self._repeated)
        if text[:size] != self._owed[self._repeated : self._repeated + size]:
            raise answers_differ()
        self._repeated += size
        if self._repeated == len(self._owed):
            self._owed, self._repeated = "", 0
        return text[size:]


def answers_differ() -> BackendRefused:
    """The repeated request had another answer than the one that was emitted in part."""
    return BackendRefused(
        "codex lost the connection to its model in mid-answer, and the second answer differs from the "
        "emitted part of the first. Send the request again.",
        status=502,
        code="stream_disconnected",
    )
