"""Separate reasoning from the answer where a server sends both in one text: ``<think>…</think>answer``.

Only tags at the start of the text count, after optional white space; white space around the tags belongs to
them. The result does not depend on how the text is cut into deltas. Once the answer has begun, `settled` is
true, and the splitter is no longer needed.
"""

from typing import Literal

from antiphon.turn.chunks import ReasoningDelta, TextDelta

Delta = TextDelta | ReasoningDelta


class ThinkSplitter:
    """Splits the text of one answer. `inside`: the prompt has already opened the tags."""

    __slots__ = ("_close", "_held", "_open", "_phase")

    def __init__(self, tags: tuple[str, str] = ("<think>", "</think>"), *, inside: bool = False) -> None:
        self._open, self._close = tags
        self._held = ""
        # opening: nothing seen but white space and perhaps a part of the tag; entered: between the tag and
        # the first text of reasoning; closed: between the closing tag and the first text of the answer.
        self._phase: Literal["opening", "inside", "entered", "thinking", "closed", "settled"]
        self._phase = "inside" if inside else "opening"

    @property
    def undecided(self) -> bool:
        """Whether the text so far may be the answer or the tag."""
        return self._phase == "opening"

    @property
    def settled(self) -> bool:
        """Whether all further text is the answer."""
        return self._phase == "settled"

    def feed(self, text: str) -> list[Delta]:
        """The deltas that this text makes certain."""
        first = text[:1]
        if not first:
            return []
        if self._phase == "opening" and not self._held and first != self._open[0] and not first.isspace():
            self._phase = "settled"  # as most answers do
            return [TextDelta(text)]
        deltas: list[Delta] = []
        self._held += text
        if self._phase in ("opening", "inside"):
            self._enter(deltas)
        if self._phase in ("entered", "thinking"):
            self._think(deltas)
        if self._phase == "closed":
            self._answer(deltas, self._held.lstrip())
        return deltas

    def finish(self) -> list[Delta]:
        """The held text, when the text ends or another chunk follows: it is not a tag."""
        held, self._held = self._held, ""
        if not held:
            return []
        if self._phase == "opening":
            self._phase = "settled"
            return [TextDelta(held)]
        return [ReasoningDelta(held)]

    def _enter(self, deltas: list[Delta]) -> None:
        """Look for the opening tag."""
        start = self._held.lstrip()
        if start.startswith(self._open):
            self._held = start[len(self._open) :]
            self._phase = "entered"
        elif not self._open.startswith(start):
            if self._phase == "inside":
                self._phase = "entered"
            else:
                self._answer(deltas, self._held)

    def _think(self, deltas: list[Delta]) -> None:
        """Emit reasoning up to the closing tag."""
        if self._phase == "entered":
            self._held = self._held.lstrip()
            if not self._held:
                return
            self._phase = "thinking"
        thought, tag, rest = self._held.partition(self._close)
        if tag:
            thought, self._held = thought.rstrip(), rest
            self._phase = "closed"
        else:
            certain = self._certain(thought)
            thought, self._held = thought[:certain], thought[certain:]
        if thought:
            deltas.append(ReasoningDelta(thought))

    def _answer(self, deltas: list[Delta], text: str) -> None:
        """The answer begins with the first character that is not white space."""
        self._held = ""
        if text:
            self._phase = "settled"
            deltas.append(TextDelta(text))

    def _certain(self, text: str) -> int:
        """The length of `text` without a suffix that may belong to the closing tag."""
        for size in range(min(len(text), len(self._close) - 1), 0, -1):
            if self._close.startswith(text[-size:]):
                text = text[:-size]
                break
        return len(text.rstrip())
