"""Recovery of tool calls that a model wrote as text. It stands between a backend and the machine.

How the text was cut into deltas changes nothing. Text flows at once unless it may be part of a call; what
follows held text waits behind it, so that nothing changes places. White space that would stand alone beside
a call in the text is left out. Text that was held comes without its logprobs, because tokens and tags do not
end at the same places.
"""

from collections import deque
from collections.abc import Sequence

from antiphon.protocol.content import Logprob
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.text_calls.forms import Call, Dialect, Tools
from antiphon.turn.text_calls.openings import openings_of
from antiphon.turn.text_calls.scan import Token
from antiphon.turn.text_calls.scanner import TextScanner
from antiphon.turn.text_calls.twins import Twins


class CallRecovery:
    """One turn. `tools` are those that the model may call; a call of any other stays text."""

    def __init__(self, dialects: Sequence[Dialect], tools: Tools) -> None:
        openings = openings_of(tuple(dialects))
        self._suspects = openings.first_characters.search
        self._opens = openings.in_text
        self._scanner = TextScanner(openings, tools)
        self._twins = Twins()
        self._chunks: list[Chunk] = []
        self._waiting: deque[tuple[int, Chunk]] = deque()
        """What came while text was held, and after how many characters."""
        self._heard = 0
        self._settled = 0
        self._blank: list[str] = []
        """White space that stands alone so far."""
        self._speaking = False
        """Whether a word was said since the last call."""
        self._found = False
        self._idle = True
        """Whether nothing is held, so that reasoning passes untouched."""
        self._flowing = False
        """Whether text without the first character of a tag does, too."""

    @property
    def holding(self) -> bool:
        """Whether anything is held back."""
        return self._scanner.holding or self._twins.waiting or bool(self._blank)

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """What these chunks make certain. After `Finished` or `Failed` nothing is held any more."""
        suspects = self._suspects
        if self._flowing and len(chunks) == 1:
            chunk = chunks[0]
            if type(chunk) is TextDelta and not suspects(chunk.text):
                return chunks  # the hottest path: tokens that come one by one
        for chunk in chunks:
            if type(chunk) is TextDelta:
                if not self._flowing or (suspects(chunk.text) and self._opens(chunk.text)):
                    break
            elif type(chunk) is not ReasoningDelta or not self._idle:
                break
        else:
            return chunks  # the hot path: words, and nothing that may become a call
        for chunk in chunks:
            text = chunk.text if self._flowing and type(chunk) is TextDelta else None
            if text is not None and not (suspects(text) and self._opens(text)):
                self._chunks.append(chunk)
            else:
                self._take(chunk)
                self._idle = not self.holding
                self._flowing = self._idle and self._speaking and self._scanner.flowing
        made, self._chunks = self._chunks, []
        return made

    def _take(self, chunk: Chunk) -> None:
        match chunk:
            case TextDelta():
                self._read(chunk)
            case UsageReported():
                self._chunks.append(chunk)
            case RefusalDelta() | CallStarted() | Finished() | Failed():
                self._settle(self._scanner.finish(cut_off=_cuts_off(chunk)))
                self._pass(chunk)
            case _:
                if self._scanner.holding:
                    self._waiting.append((self._heard, chunk))
                else:
                    self._pass(chunk)

    def _read(self, delta: TextDelta) -> None:
        self._heard += len(delta.text)
        tokens = self._scanner.feed(delta.text)
        untouched = tokens == [delta.text] and self._settled + len(delta.text) == self._heard
        self._settle(tokens, delta.logprobs if untouched else ())

    def _settle(self, tokens: Sequence[Token], logprobs: tuple[Logprob, ...] = ()) -> None:
        """What the scanner is certain of, with what waited behind it."""
        for token in tokens:
            if isinstance(token, str):
                self._say_around_waiting(token, logprobs)
            else:
                self._settled += token.size
                for call in token.calls:
                    self._tell(call)
            self._pass_waiting()

    def _say_around_waiting(self, text: str, logprobs: tuple[Logprob, ...]) -> None:
        while self._waiting and self._waiting[0][0] < self._settled + len(text):
            before = self._waiting[0][0] - self._settled
            self._say(text[:before], ())
            self._settled += before
            text = text[before:]
            self._pass_waiting()
        self._say(text, logprobs)
        self._settled += len(text)

    def _pass_waiting(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._settled:
            self._pass(self._waiting.popleft()[1])

    def _say(self, text: str, logprobs: tuple[Logprob, ...]) -> None:
        """Text, unless it is white space beside a call that may turn out to stand alone."""
        if not text:
            return
        if not self._speaking and text.isspace():
            self._blank.append(text)
            return
        self._speaking = True
        if self._blank:
            text, logprobs = "".join((*self._blank, text)), ()
            self._blank.clear()
        self._chunks.extend(self._twins.release())
        self._chunks.append(TextDelta(text, logprobs))

    def _tell(self, call: Call) -> None:
        self._found = True
        self._speaking = False
        self._blank.clear()
        self._chunks.extend(self._twins.from_text(call))

    def _pass(self, chunk: Chunk) -> None:
        """Something that is no text, in its place."""
        self._settle_blank()
        if isinstance(chunk, CallStarted | CallDelta | CallFinished):
            self._speaking = self._speaking and not isinstance(chunk, CallStarted)
            self._chunks.extend(self._twins.from_backend(chunk))
            return
        over = isinstance(chunk, Finished | Failed)
        self._chunks.extend(self._twins.finish() if over else self._twins.release())
        if isinstance(chunk, Finished) and chunk.reason == "stop" and self._twins.told:
            chunk = Finished("tool_calls")
        self._chunks.append(chunk)

    def _settle_blank(self) -> None:
        """White space stands alone now: beside a call that was found in the text, it is not said."""
        if self._blank and not self._found:
            self._chunks.append(TextDelta("".join(self._blank)))
        self._blank.clear()


def _cuts_off(chunk: Chunk) -> bool:
    """Whether the model did not say all that it wanted to."""
    return isinstance(chunk, Failed) or (
        isinstance(chunk, Finished) and chunk.reason in ("length", "content_filter")
    )
