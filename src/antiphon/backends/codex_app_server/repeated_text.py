"""`RepeatedText`: the text of one response, made of the messages that codex says. Sans-IO."""

from antiphon.errors import BackendRefused


class RepeatedText:
    """Several messages of codex are one text of ours: a blank line stands between them.

    When codex loses its model in mid-answer, it asks the model again, and that begins anew. What was told
    cannot be taken back: the next message must begin with the words of the last one, which are not told
    again. If the last one was whole, the model may also say no more: some call a tool after it.
    """

    def __init__(self) -> None:
        self._told: list[str] = []
        self._message = ""
        self._said: list[str] = []
        self._streamed: set[str] = set()
        self._unfinished = False
        self._fresh = False
        self._owed = ""
        self._repeated = 0
        self._owing = False

    @property
    def text(self) -> str:
        """Everything that was told."""
        return "".join(self._told)

    @property
    def owing(self) -> bool:
        """Whether the model must still say again what was told of a broken message."""
        return self.repeating and self._owing

    @property
    def repeating(self) -> bool:
        """Whether the next words, if any, are to repeat told ones."""
        return bool(self._owed)

    def delta(self, message: str, words: str) -> str:
        """A piece of a message; returns what is to be told. Raises if it is not what was told before."""
        self._streamed.add(message)
        return self._say(message, words)

    def whole(self, message: str, words: str) -> str:
        """A message has ended; returns what its pieces did not tell."""
        new = "" if message in self._streamed else self._say(message, words)
        if self.repeating:
            raise answers_differ()
        if message == self._message:
            self._unfinished = False
        return new

    def interrupted(self) -> None:
        """Codex has lost its model, and asks again."""
        if not self.repeating:
            self._owing = self._unfinished
        if self._unfinished or self._fresh:
            self._owed, self._repeated = "".join(self._said), 0
            self._streamed.discard(self._message)

    def settled(self) -> None:
        """The model has said all that it wanted to: nothing of it will be said again."""
        if self.owing:
            raise answers_differ()
        self._owed, self._fresh = "", False

    def _say(self, message: str, words: str) -> str:
        if message != self._message and not self.repeating:
            self._said = []
        self._message, self._unfinished = message, True
        new = self._not_yet_told(words)
        if not new:
            return ""
        parting = "\n\n" if self._told and not self._said else ""
        self._said.append(new)
        self._told.append(parting + new)
        self._fresh = True
        return parting + new

    def _not_yet_told(self, words: str) -> str:
        size = min(len(words), len(self._owed) - self._repeated)
        if words[:size] != self._owed[self._repeated : self._repeated + size]:
            raise answers_differ()
        self._repeated += size
        if self._repeated == len(self._owed):
            self._owed, self._repeated = "", 0
        return words[size:]


def answers_differ() -> BackendRefused:
    """The model was asked again, and gave another answer than the one that was told in part."""
    return BackendRefused(
        "codex lost the connection to its model in mid-answer, and the second answer differs from what was "
        "said of the first. Send the request again.",
        status=502,
        code="stream_disconnected",
    )
