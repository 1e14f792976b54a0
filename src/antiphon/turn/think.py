"""Parts reasoning from the answer where a server leaves both in one text: ``<think>…</think>answer``.

Only tags at the very start of the text count, after optional white space; white space around the tags
belongs to them. How the text is cut into deltas changes nothing. Once the answer itself has begun
`settled` is true, and the splitter can be let go.
"""

from typing import Literal

from antiphon.turn.chunks import ReasoningDelta, TextDelta

Words = TextDelta | ReasoningDelta


class ThinkSplitter:
    """Splits the text of one answer. `inside`: it begins within the tags, which the prompt had opened."""

    __slots__ = ("_close", "_held", "_open", "_phase")

    def __init__(self, tags: tuple[str, str] = ("<think>", "</think>"), *, inside: bool = False) -> None:
        self._open, self._close = tags
        self._held = ""
        # opening: nothing seen but white space and perhaps a part of the tag; entered: between the tag and
        # the first word of reasoning; closed: between the closing tag and the first word of the answer.
        self._phase: Literal["opening", "inside", "entered", "thinking", "closed", "settled"]
        self._phase = "inside" if inside else "opening"

    @property
    def undecided(self) -> bool:
        """Whether what came so far may be the answer as well as the tag."""
        return self._phase == "opening"

    @property
    def settled(self) -> bool:
        """Whether all that follows is the answer."""
        return self._phase == "settled"

    def feed(self, text: str) -> list[Words]:
        """What this piece of text makes certain."""
        words: list[Words] = []
        self._held += text
        if self._phase in ("opening", "inside"):
            self._enter(words)
        if self._phase in ("entered", "thinking"):
            self._think(words)
        if self._phase == "closed":
            self._answer(words, self._held.lstrip())
        return words

    def finish(self) -> list[Words]:
        """What was held back, when the text ends or something else follows: it was no tag after all."""
        held, self._held = self._held, ""
        if not held:
            return []
        if self._phase == "opening":
            self._phase = "settled"
            return [TextDelta(held)]
        return [ReasoningDelta(held)]

    def _enter(self, words: list[Words]) -> None:
        """Look for the opening tag."""
        start = self._held.lstrip()
        if start.startswith(self._open):
            self._held = start[len(self._open) :]
            self._phase = "entered"
        elif not self._open.startswith(start):
            if self._phase == "inside":
                self._phase = "entered"
            else:
                self._answer(words, self._held)

    def _think(self, words: list[Words]) -> None:
        """Pass reasoning on, up to the closing tag."""
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
            words.append(ReasoningDelta(thought))

    def _answer(self, words: list[Words], text: str) -> None:
        """The answer begins with the first word that is no white space."""
        self._held = ""
        if text:
            self._phase = "settled"
            words.append(TextDelta(text))

    def _certain(self, text: str) -> int:
        """How much of `text` is reasoning for sure: not what may be part of the closing tag before it."""
        for size in range(min(len(text), len(self._close) - 1), 0, -1):
            if self._close.startswith(text[-size:]):
                text = text[:-size]
                break
        return len(text.rstrip())
