"""A call that a backend reports natively, and that its model also wrote as text, is one call.

Each native call is the twin of at most one text call: same name, same JSON value of the arguments. A text
call whose twin was told already is left out. Behind text calls that have no twin yet, native calls of the
same name wait until they are whole, and are left out if they are twins.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Literal

import msgspec

from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk
from antiphon.turn.text_calls.forms import Call
from antiphon.turn.text_calls.json_calls import decoded

NativeChunk = CallStarted | CallDelta | CallFinished
Identity = tuple[str, bytes]
"""The name and the arguments, in one spelling."""


class NativeCall:
    """A call that the backend reports."""

    __slots__ = ("_pieces", "fate", "name", "paired", "waiting", "whole")

    def __init__(self, name: str, fate: Literal["told", "waits"]) -> None:
        self.name = name
        self.fate: Literal["told", "waits", "left out"] = fate
        self.paired = False
        self.whole = False
        self.waiting: list[Chunk] = []
        self._pieces: list[str] = []

    def take(self, chunk: NativeChunk) -> None:
        """Remember what it calls the tool with."""
        if isinstance(chunk, CallDelta):
            self._pieces.append(chunk.arguments)
        elif isinstance(chunk, CallFinished):
            self.whole = True

    def identity(self) -> Identity | None:
        """What a twin shares; nothing as long as the arguments are no JSON."""
        return _identity(self.name, "".join(self._pieces))


class Twins:
    """The calls of one turn."""

    def __init__(self) -> None:
        self._native: dict[int, NativeCall] = {}
        self._waiting: deque[NativeCall] = deque()
        self._without_twin: Counter[Identity] = Counter()
        self.told = 0
        """How many calls of the text were told."""

    @property
    def waiting(self) -> bool:
        """Whether native calls wait."""
        return bool(self._waiting)

    def from_text(self, call: Call) -> Iterator[Chunk]:
        """A call that stood in the text."""
        yield from self.release()
        identity = _identity(call.name, call.arguments)
        if identity is not None:
            for native in self._native.values():
                if not native.paired and native.identity() == identity:
                    native.paired = True
                    return
            self._without_twin[identity] += 1
        self.told += 1
        index = -self.told  # backends count from 0 upwards
        yield CallStarted(index, "", call.name)
        yield CallDelta(index, call.arguments)
        yield CallFinished(index)

    def from_backend(self, chunk: NativeChunk) -> Iterator[Chunk]:
        """A piece of a call that the backend reports."""
        if isinstance(chunk, CallStarted):
            self._begin(chunk)
        native = self._native.get(chunk.index)
        if native is None:
            yield chunk
            return
        native.take(chunk)
        if native.fate == "told":
            yield chunk
        elif native.fate == "waits":
            native.waiting.append(chunk)
            while self._waiting and self._waiting[0].whole:
                yield from self._judge(self._waiting.popleft())

    def release(self) -> Iterator[Chunk]:
        """Something else follows, so that no native call will become more whole."""
        while self._waiting:
            yield from self._judge(self._waiting.popleft())

    def _begin(self, chunk: CallStarted) -> None:
        for earlier in self._waiting:
            # Backends that do not say when a call is whole begin the next one; others mix the two.
            earlier.whole = earlier.whole or earlier.identity() is not None
        waits = bool(self._waiting) or any(name == chunk.name for name, _ in self._without_twin)
        native = NativeCall(chunk.name, "waits" if waits else "told")
        self._native[chunk.index] = native
        if waits:
            self._waiting.append(native)

    def _judge(self, native: NativeCall) -> Iterator[Chunk]:
        identity = native.identity()
        if identity is not None and self._without_twin[identity] > 0:
            self._without_twin -= Counter([identity])
            native.paired = True
            native.fate = "left out"
        else:
            native.fate = "told"
            yield from native.waiting
        native.waiting.clear()


def _identity(name: str, arguments: str) -> Identity | None:
    value = decoded(arguments if arguments.strip() else "{}", msgspec.json.decode)
    return None if value is None else (name, msgspec.json.encode(value, order="sorted"))
