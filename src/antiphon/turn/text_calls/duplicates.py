"""Drop the duplicate of a call that the backend reports natively and its model also wrote as text.

Two calls are duplicates if they have the same name and arguments of the same JSON value. Each native call
matches at most one text call. A text call whose duplicate was already emitted is dropped. After a text call
without a match, native calls of the same name wait until they are complete, and are dropped if they match.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Literal

import msgspec

from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk
from antiphon.turn.text_calls.json_calls import Call, decoded

NativeChunk = CallStarted | CallDelta | CallFinished
Identity = tuple[str, bytes]
"""The name, and the arguments as canonical JSON."""


class NativeCall:
    __slots__ = ("_pieces", "complete", "counted", "name", "state", "waiting")

    def __init__(self, name: str, state: Literal["emitted", "waiting"]) -> None:
        self.name = name
        self.state: Literal["emitted", "waiting", "dropped"] = state
        self.complete = False
        self.counted = False
        """Whether it can match a text call, or does."""
        self.waiting: list[Chunk] = []
        self._pieces: list[str] = []

    def take(self, chunk: NativeChunk) -> None:
        if isinstance(chunk, CallDelta):
            self._pieces.append(chunk.arguments)
        elif isinstance(chunk, CallFinished):
            self.complete = True

    def identity(self) -> Identity | None:
        """None as long as more arguments must or may follow."""
        if not self.complete and not (self._pieces and self._pieces[-1].rstrip().endswith("}")):
            return None
        return _identity(self.name, "".join(self._pieces))


class DuplicateFilter:
    """The calls of one turn."""

    def __init__(self) -> None:
        self._native: dict[int, NativeCall] = {}
        self._waiting: deque[NativeCall] = deque()
        self._uncounted: set[NativeCall] = set()
        """Native calls that were emitted, perhaps in part, since the last text call."""
        self._unmatched_native: defaultdict[Identity, int] = defaultdict(int)
        """Emitted native calls without a match."""
        self._unmatched_in_text: defaultdict[Identity, int] = defaultdict(int)
        self._names_in_text: defaultdict[str, int] = defaultdict(int)
        self.emitted = 0
        """The number of emitted text calls."""

    @property
    def waiting(self) -> bool:
        """Whether native calls wait."""
        return bool(self._waiting)

    def from_text(self, call: Call) -> Iterator[Chunk]:
        """The chunks for a call of the text."""
        yield from self.release()
        identity = _identity(call.name, call.arguments)
        if identity is not None:
            self._count_native()
            if self._unmatched_native[identity]:
                self._unmatched_native[identity] -= 1
                return
            self._unmatched_in_text[identity] += 1
            self._names_in_text[call.name] += 1
        self.emitted += 1
        index = -self.emitted  # backends count from 0 upwards
        yield CallStarted(index, "", call.name)
        yield CallDelta(index, call.arguments)
        yield CallFinished(index)

    def from_backend(self, chunk: NativeChunk) -> Iterator[Chunk]:
        """The chunks for a chunk of a native call."""
        if isinstance(chunk, CallStarted):
            self._begin(chunk)
        native = self._native.get(chunk.index)
        if native is None:
            yield chunk
            return
        native.take(chunk)
        if native.state == "emitted":
            self._uncounted.add(native)
            yield chunk
        elif native.state == "waiting":
            native.waiting.append(chunk)
            while self._waiting and self._waiting[0].complete:
                yield from self._decide(self._waiting.popleft())

    def release(self) -> Iterator[Chunk]:
        """Decide about all waiting calls: another chunk follows them."""
        while self._waiting:
            yield from self._decide(self._waiting.popleft())

    def finish(self) -> Iterator[Chunk]:
        """Decide about all waiting calls: the turn is over, and they are complete."""
        for native in self._waiting:
            native.complete = True
        return self.release()

    def _begin(self, chunk: CallStarted) -> None:
        waits = bool(self._waiting) or self._names_in_text[chunk.name] > 0
        native = NativeCall(chunk.name, "waiting" if waits else "emitted")
        self._native[chunk.index] = native
        if waits:
            self._waiting.append(native)

    def _decide(self, native: NativeCall) -> Iterator[Chunk]:
        identity = native.identity()
        if identity is not None and self._unmatched_in_text[identity]:
            self._unmatched_in_text[identity] -= 1
            self._names_in_text[native.name] -= 1
            native.state = "dropped"
        else:
            native.state = "emitted"
            self._uncounted.add(native)
            yield from native.waiting
        native.waiting.clear()

    def _count_native(self) -> None:
        for native in self._uncounted:
            identity = None if native.counted else native.identity()
            if identity is not None:
                native.counted = True
                self._unmatched_native[identity] += 1
        self._uncounted.clear()


def _identity(name: str, arguments: str) -> Identity | None:
    value = decoded(arguments if arguments.strip() else "{}", msgspec.json.decode)
    return None if value is None else (name, msgspec.json.encode(value, order="sorted"))
