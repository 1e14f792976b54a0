"""A call that a backend reports natively, and that its model also wrote as text, is one call.

Each native call is the twin of at most one text call: same name, same JSON value of the arguments. A text
call whose twin was told already is left out. Behind text calls that have no twin yet, native calls of the
same name wait until they are whole, and are left out if they are twins.
"""

from collections import defaultdict, deque
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

    __slots__ = ("_pieces", "counted", "fate", "name", "waiting", "whole")

    def __init__(self, name: str, fate: Literal["told", "waits"]) -> None:
        self.name = name
        self.fate: Literal["told", "waits", "left out"] = fate
        self.whole = False
        self.counted = False
        """Whether a text call may be its twin from now on, or is."""
        self.waiting: list[Chunk] = []
        self._pieces: list[str] = []

    def take(self, chunk: NativeChunk) -> None:
        """Remember what it calls the tool with."""
        if isinstance(chunk, CallDelta):
            self._pieces.append(chunk.arguments)
        elif isinstance(chunk, CallFinished):
            self.whole = True

    def identity(self) -> Identity | None:
        """What a twin shares; nothing as long as more arguments must or may follow."""
        if not self.whole and not (self._pieces and self._pieces[-1].rstrip().endswith("}")):
            return None
        return _identity(self.name, "".join(self._pieces))


class Twins:
    """The calls of one turn."""

    def __init__(self) -> None:
        self._native: dict[int, NativeCall] = {}
        self._waiting: deque[NativeCall] = deque()
        self._news: set[NativeCall] = set()
        """Native calls that were told, in part perhaps, since a text call was last compared with them."""
        self._single: defaultdict[Identity, int] = defaultdict(int)
        """Native calls that were told and have no twin."""
        self._single_in_text: defaultdict[Identity, int] = defaultdict(int)
        self._names_in_text: defaultdict[str, int] = defaultdict(int)
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
            self._count_news()
            if self._single[identity]:
                self._single[identity] -= 1
                return
            self._single_in_text[identity] += 1
            self._names_in_text[call.name] += 1
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
            self._news.add(native)
            yield chunk
        elif native.fate == "waits":
            native.waiting.append(chunk)
            while self._waiting and self._waiting[0].whole:
                yield from self._judge(self._waiting.popleft())

    def release(self) -> Iterator[Chunk]:
        """Something else follows, before which native calls must have been told."""
        while self._waiting:
            yield from self._judge(self._waiting.popleft())

    def finish(self) -> Iterator[Chunk]:
        """No native call will become more whole."""
        for native in self._waiting:
            native.whole = True
        return self.release()

    def _begin(self, chunk: CallStarted) -> None:
        waits = bool(self._waiting) or self._names_in_text[chunk.name] > 0
        native = NativeCall(chunk.name, "waits" if waits else "told")
        self._native[chunk.index] = native
        if waits:
            self._waiting.append(native)

    def _judge(self, native: NativeCall) -> Iterator[Chunk]:
        identity = native.identity()
        if identity is not None and self._single_in_text[identity]:
            self._single_in_text[identity] -= 1
            self._names_in_text[native.name] -= 1
            native.fate = "left out"
        else:
            native.fate = "told"
            self._news.add(native)
            yield from native.waiting
        native.waiting.clear()

    def _count_news(self) -> None:
        for native in self._news:
            identity = None if native.counted else native.identity()
            if identity is not None:
                native.counted = True
                self._single[identity] += 1
        self._news.clear()


def _identity(name: str, arguments: str) -> Identity | None:
    value = decoded(arguments if arguments.strip() else "{}", msgspec.json.decode)
    return None if value is None else (name, msgspec.json.encode(value, order="sorted"))
