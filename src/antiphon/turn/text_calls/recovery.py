"""Recovery of tool calls that a model wrote as text: chunks of a backend in, chunks for the machine out.

The result does not depend on how the text is cut into deltas. Text is emitted at once unless it may be part
of a call; chunks that follow held text wait for it, so that the order stays. White space that would be a
message of its own next to a call is dropped. Held text loses its logprobs, because tokens and tags end at
different places.
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
from antiphon.turn.text_calls.dialects import Dialect, openings_of
from antiphon.turn.text_calls.duplicates import DuplicateFilter
from antiphon.turn.text_calls.json_calls import Call, Tools
from antiphon.turn.text_calls.scanner import TextScanner, Token


class CallRecovery:
    """One turn. A call of a tool that is not in `tools` stays text."""

    def __init__(self, dialects: Sequence[Dialect], tools: Tools) -> None:
        openings = openings_of(tuple(dialects))
        self._suspects = openings.first_characters.search
        self._opens = openings.in_text
        self._scanner = TextScanner(openings, tools)
        self._duplicates = DuplicateFilter()
        self._chunks: list[Chunk] = []
        self._waiting: deque[tuple[int, Chunk]] = deque()
        """Chunks that came while text was held, with the number of characters before them."""
        self._received = 0
        self._settled = 0
        """Characters of text: received, and received and certain."""
        self._blank: list[str] = []
        """White space without other text since the last call."""
        self._in_text = False
        """Whether text was emitted since the last call."""
        self._found = False
        self._idle = True
        """Whether nothing is held: reasoning passes unchanged."""
        self._flowing = False
        """Whether text without the first character of a tag passes unchanged, too."""

    @property
    def holding(self) -> bool:
        """Whether anything is held back."""
        return self._scanner.holding or self._duplicates.waiting or bool(self._blank)

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks that are certain now. After `Finished` or `Failed` nothing is held."""
        suspects = self._suspects
        if self._flowing and len(chunks) == 1:
            chunk = chunks[0]
            if type(chunk) is TextDelta and not suspects(chunk.text):
                return chunks  # the hottest path: single tokens
        for chunk in chunks:
            if type(chunk) is TextDelta:
                if not self._flowing or (suspects(chunk.text) and self._opens(chunk.text)):
                    break
            elif type(chunk) is not ReasoningDelta or not self._idle:
                break
        else:
            return chunks  # the hot path: only text that cannot become a call
        for chunk in chunks:
            text = chunk.text if self._flowing and type(chunk) is TextDelta else None
            if text is not None and not (suspects(text) and self._opens(text)):
                self._chunks.append(chunk)
            else:
                self._take(chunk)
                self._idle = not self.holding
                self._flowing = self._idle and self._in_text and self._scanner.flowing
        emitted, self._chunks = self._chunks, []
        return emitted

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
                    self._waiting.append((self._received, chunk))
                else:
                    self._pass(chunk)

    def _read(self, delta: TextDelta) -> None:
        self._received += len(delta.text)
        tokens = self._scanner.feed(delta.text)
        untouched = tokens == [delta.text] and self._settled + len(delta.text) == self._received
        self._settle(tokens, delta.logprobs if untouched else ())

    def _settle(self, tokens: Sequence[Token], logprobs: tuple[Logprob, ...] = ()) -> None:
        """Emit the scanner's tokens, and the chunks that waited for them."""
        for token in tokens:
            if isinstance(token, str):
                self._emit_text_with_waiting(token, logprobs)
            else:
                self._settled += token.size
                for call in token.calls:
                    self._emit_call(call)
            self._pass_waiting()

    def _emit_text_with_waiting(self, text: str, logprobs: tuple[Logprob, ...]) -> None:
        while self._waiting and self._waiting[0][0] < self._settled + len(text):
            before = self._waiting[0][0] - self._settled
            self._emit_text(text[:before], ())
            self._settled += before
            text = text[before:]
            self._pass_waiting()
        self._emit_text(text, logprobs)
        self._settled += len(text)

    def _pass_waiting(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._settled:
            self._pass(self._waiting.popleft()[1])

    def _emit_text(self, text: str, logprobs: tuple[Logprob, ...]) -> None:
        """Emit text; white space waits until other text follows it."""
        if not text:
            return
        if not self._in_text and text.isspace():
            self._blank.append(text)
            return
        self._in_text = True
        if self._blank:
            text, logprobs = "".join((*self._blank, text)), ()
            self._blank.clear()
        self._chunks.extend(self._duplicates.release())
        self._chunks.append(TextDelta(text, logprobs))

    def _emit_call(self, call: Call) -> None:
        self._found = True
        self._in_text = False
        self._blank.clear()
        self._chunks.extend(self._duplicates.from_text(call))

    def _pass(self, chunk: Chunk) -> None:
        """Emit a chunk that is not text."""
        self._settle_blank()
        if isinstance(chunk, CallStarted | CallDelta | CallFinished):
            self._in_text = self._in_text and not isinstance(chunk, CallStarted)
            self._chunks.extend(self._duplicates.from_backend(chunk))
            return
        over = isinstance(chunk, Finished | Failed)
        self._chunks.extend(self._duplicates.finish() if over else self._duplicates.release())
        if isinstance(chunk, Finished) and chunk.reason == "stop" and self._duplicates.emitted:
            chunk = Finished("tool_calls")
        self._chunks.append(chunk)

    def _settle_blank(self) -> None:
        """Emit white space that no text followed, unless there is a call in the text next to it."""
        if self._blank and not self._found:
            self._chunks.append(TextDelta("".join(self._blank)))
        self._blank.clear()


def _cuts_off(chunk: Chunk) -> bool:
    """Whether the answer is incomplete."""
    return isinstance(chunk, Failed) or (
        isinstance(chunk, Finished) and chunk.reason in ("length", "content_filter")
    )
