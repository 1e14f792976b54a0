"""Removes the secrets of this process from the chunks of a response, also if they are split over deltas.

The deltas that a client may join are a *series*: all text, all refusals, all reasoning, all summaries, the
arguments of one call, the code of one hosted tool. A delta that ends with the beginning of a secret is held
until the next one of its series shows whether it is the secret. The chunks after it wait in a queue: only
texts change, never the order of chunks. Everything is bounded:

- The held text of a series is shorter than the longest secret: what precedes the beginning is passed on.
- A queue of more than `MAX_HELD_CHUNKS` breaks off the oldest held text, and so does the end of its series or
  of the turn. That text is passed on, unless it is too much of a secret, and it is remembered: the rest of
  the secret is recognised if it comes later.

Most batches are text without the beginning of a secret; they cost one search for a few characters.
"""

from collections import deque
from collections.abc import Sequence

from antiphon.known_secrets import HIDDEN, START_CHARACTERS, KnownSecrets
from antiphon.protocol.events import HostedEvent
from antiphon.service.responses.chunk_texts import (
    STEP_DELTAS,
    Delta,
    rest_from,
    scrubbed,
    text_of,
    with_text,
)
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
    UsageSpent,
)

MAX_HELD_CHUNKS = 256
MAX_SERIES = 1024
"""Calls and hosted tools whose texts are followed at the same time; an answer has fewer by default."""

_TAIL_CHARACTERS = START_CHARACTERS - 1
_Key = int | tuple[int, type[HostedEvent]]
"""Identifies a call, or a text of a hosted tool."""
_Span = tuple[int, int]


class _Series:
    """Deltas that may be joined. A secret may begin with `tail`, the last characters that were passed on."""

    __slots__ = ("held", "tail")

    def __init__(self) -> None:
        self.tail = ""
        self.held: list[_Queued] = []
        """The deltas that are not decided."""


class _Queued:
    """A place in the queue: chunks that are ready, and after them a delta that is not decided."""

    __slots__ = ("ready", "series", "undecided")

    def __init__(
        self, ready: list[Chunk], undecided: Delta | None = None, series: _Series | None = None
    ) -> None:
        self.ready = ready
        self.undecided = undecided
        self.series = series

    def decide(self, window: str, spans: Sequence[_Span], begin: int, until: int) -> int:
        """Make the delta ready as far as it is decided. It is at `begin` in the window; returns its end."""
        delta = self.undecided
        if delta is None:
            return begin
        text = text_of(delta)
        end = begin + len(text)
        decided = min(end, until)
        if decided > begin or not text:
            shown = _shown(window, spans, begin, decided)
            unchanged = shown == window[begin:decided]
            if decided == end:
                self.undecided = self.series = None
                if unchanged:
                    self.ready.append(delta)
                    return end
            else:
                self.undecided = rest_from(delta if unchanged else with_text(delta, text), decided - begin)
            if shown:
                self.ready.append(with_text(delta, shown))
        return end


class SecretFilter:
    """Filters the chunks of one response."""

    __slots__ = ("_kinds", "_max_held", "_numbered", "_queue", "_secrets", "_text", "_token_tail")

    def __init__(self, secrets: KnownSecrets, max_held_chunks: int = MAX_HELD_CHUNKS) -> None:
        self._secrets = secrets
        self._max_held = max_held_chunks
        self._text = _Series()
        self._kinds: dict[type[Chunk], _Series] = {}
        """Refusals, reasoning, summaries."""
        self._numbered: dict[_Key, _Series] = {}
        self._queue: deque[_Queued] = deque()
        self._token_tail = ""
        """The last characters of the tokens with log probabilities."""

    @property
    def holds(self) -> bool:
        """Whether chunks are held back."""
        return bool(self._queue)

    def feed(self, batch: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks that may be passed on; possibly none."""
        if not self._queue:
            if len(batch) == 1:
                chunk = batch[0]
                text = chunk.text if type(chunk) is TextDelta and not chunk.logprobs else None
            else:
                texts = [chunk.text for chunk in batch if type(chunk) is TextDelta and not chunk.logprobs]
                text = "".join(texts) if len(texts) == len(batch) else None
            if text is not None:
                # The hot path: text without the beginning of a secret.
                series = self._text
                window = series.tail + text
                if self._secrets.starts.search(window) is None:
                    series.tail = window[-_TAIL_CHARACTERS:]
                    return batch
        passed: list[Chunk] = []
        for chunk in batch:
            self._take(chunk, passed)
        return passed

    def release(self) -> Sequence[Chunk]:
        """Everything that is held: the turn is over."""
        passed: list[Chunk] = []
        self._pass_on(passed, 0)
        self._numbered.clear()
        return passed

    def _take(self, chunk: Chunk, passed: list[Chunk]) -> None:
        match chunk:
            case TextDelta():
                if chunk.logprobs:
                    chunk = self._with_safe_tokens(chunk)
                self._take_delta(chunk, chunk.text, self._text, passed)
            case RefusalDelta() | ReasoningDelta() | ReasoningSummaryDelta():
                series = self._kinds.get(type(chunk)) or self._kinds.setdefault(type(chunk), _Series())
                self._take_delta(chunk, chunk.text, series, passed)
            case CallDelta():
                self._take_delta(chunk, chunk.arguments, self._numbered_series(chunk.index), passed)
            case HostedItemStep(fields=(str(text),)) if chunk.event in STEP_DELTAS:
                series = self._numbered_series((chunk.index, chunk.event))
                self._take_delta(chunk, text, series, passed)
            case UsageReported() | UsageSpent():
                self._append(chunk, passed)
            case _:
                self._end_series(chunk, passed)
                self._append(scrubbed(chunk, self._secrets), passed)

    def _take_delta(self, delta: Delta, text: str, series: _Series, passed: list[Chunk]) -> None:
        if not series.held:
            window = series.tail + text
            if self._secrets.starts.search(window) is None:
                series.tail = window[-_TAIL_CHARACTERS:]
                self._append(delta, passed)
                return
        queued = _Queued([], delta, series)
        series.held.append(queued)
        self._queue.append(queued)
        self._decide(series)
        self._pass_on(passed, self._max_held)

    def _append(self, chunk: Chunk, passed: list[Chunk]) -> None:
        """Pass a chunk on, after those that are held."""
        if self._queue:
            self._queue.append(_Queued([chunk]))
            self._pass_on(passed, self._max_held)
        else:
            passed.append(chunk)

    def _pass_on(self, passed: list[Chunk], max_held: int) -> None:
        """Pass on what is decided; everything that exceeds the bound is broken off."""
        queue = self._queue
        while queue:
            first = queue[0]
            passed += first.ready
            first.ready = []
            if first.series is None:
                queue.popleft()
            elif len(queue) > max_held:
                self._decide(first.series, broken_off=True)
            else:
                return

    def _numbered_series(self, key: _Key) -> _Series:
        series = self._numbered.get(key)
        if series is None:
            if len(self._numbered) >= MAX_SERIES:
                del self._numbered[next(iter(self._numbered))]
            series = self._numbered[key] = _Series()
        return series

    def _end_series(self, chunk: Chunk, passed: list[Chunk]) -> None:
        """No delta follows in the series that this chunk ends."""
        match chunk:
            case Finished() | Failed():
                passed += self.release()
            case CallStarted() | CallFinished():
                self._forget(chunk.index)
            case HostedItemBegun(index=int(index)) | HostedItemDone(index=int(index)):
                for event in STEP_DELTAS:
                    self._forget((index, event))
            case _:
                pass

    def _forget(self, key: _Key) -> None:
        series = self._numbered.pop(key, None)
        if series is not None and series.held:
            self._decide(series, broken_off=True)

    def _decide(self, series: _Series, *, broken_off: bool = False) -> None:
        """Make the held deltas ready up to where a secret may begin; all of them if they are broken off."""
        begin, held = len(series.tail), series.held
        window = series.tail + "".join(text_of(queued.undecided) for queued in held if queued.undecided)
        spans, open_from = self._broken_off(window) if broken_off else self._found(window)
        until = len(window) if broken_off else max(open_from, begin)
        spans = [(max(first, begin), last) for first, last in spans]
        series.held = []
        at = begin
        for queued in held:
            at = queued.decide(window, spans, at, until)
            if queued.undecided is not None:
                series.held.append(queued)
        series.tail = window[min(open_from, max(0, until - _TAIL_CHARACTERS)) : until]

    def _found(self, window: str) -> tuple[list[_Span], int]:
        """The secrets in a text, and where another may begin."""
        secrets = self._secrets
        open_from = secrets.open_from(window)
        spans: list[_Span] = []
        if secrets.are_in(window):
            for found in secrets.complete.finditer(window):
                first, last = found.span()
                if first >= open_from:  # this may be the beginning of a longer one
                    break
                spans.append((first, last))
                if last > open_from:
                    open_from = last + secrets.open_from(window[last:])
        return spans, open_from

    def _broken_off(self, window: str) -> tuple[list[_Span], int]:
        """The same for a text that does not continue, or not soon: too much of a secret counts as one."""
        secrets = self._secrets
        hidden_from = secrets.hidden_from(window)
        spans = [found.span() for found in secrets.complete.finditer(window) if found.start() < hidden_from]
        if hidden_from < len(window):
            spans.append((hidden_from, len(window)))
        return spans, secrets.open_from(window)

    def _with_safe_tokens(self, delta: TextDelta) -> TextDelta:
        """Leave log probabilities out whose tokens complete a secret."""
        secrets = self._secrets
        window = self._token_tail + "".join(logprob.token for logprob in delta.logprobs)
        self._token_tail, unsafe = window[-_TAIL_CHARACTERS:], False
        if secrets.starts.search(window) is not None:
            open_from, unsafe = secrets.open_from(window), secrets.are_in(window)
            if open_from < len(window):
                self._token_tail = window[open_from:]
        others = [other.token for logprob in delta.logprobs for other in logprob.top_logprobs]
        return TextDelta(delta.text) if unsafe or secrets.are_in("\n".join(others)) else delta


def _shown(window: str, spans: Sequence[_Span], begin: int, end: int) -> str:
    """A part of the window with its secrets redacted, each where it begins."""
    pieces: list[str] = []
    at = begin
    for first, last in spans:
        if last > begin and first < end:
            pieces.append(window[at:first])
            if first >= begin:
                pieces.append(HIDDEN)
            at = last
    pieces.append(window[at:end])
    return "".join(pieces)
