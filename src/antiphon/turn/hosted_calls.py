"""The calls of hosted tools that this server runs, taken out of the chunks of one turn. Sans-IO.

The calls never reach the client as calls of functions. When the turn has ended normally, they are to be run;
the model continues with the results in another round, unless it has also called tools of the client: then the
response ends with those calls, and the next request brings their outputs.
"""

from collections.abc import Sequence

from msgspec import Struct

from antiphon.protocol.response import Usage
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest


class HostedCall(Struct, frozen=True):
    """A call of the model. `index` identifies it in the turn; `key` is that of the function."""

    index: int
    key: str
    arguments: str
    approval_request_id: str | None = None
    """The request for an approval that was given to this call."""


class HostedCalls:
    """Takes the calls out of one turn.

    `insists`: the turn must call a hosted tool, and can call nothing else. Then text is held until the model
    has called one; at the end it is dropped if there was no call (`text_instead`).
    """

    def __init__(self, turn: TurnRequest) -> None:
        self._keys = {tool.name: tool.origin for tool in turn.tools if tool.kind == "hosted"}
        self._spent = turn.spent
        self._calls: list[tuple[str, list[str]]] = []
        """The key of the function, and the pieces of the arguments, of each call."""
        self._open: dict[int, list[str]] = {}
        """The pieces of the call that has an index of the backend."""
        self._insists = must_call_hosted(turn)
        self._text: list[Chunk] = []
        self._other_calls = False
        self._finished: Finished | None = None
        self._usage: UsageReported | None = None
        self._broken = False

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks that pass on."""
        if not self._open and not self._calls and not self._insists and not any(map(_is_start, chunks)):
            return chunks
        return [left for chunk in chunks for left in self._take(chunk)]

    @property
    def calls(self) -> list[HostedCall]:
        """The calls to run, after the turn has ended; none if it did not end normally."""
        if self._broken or self._finished is None:
            return []
        return [HostedCall(index, key, "".join(pieces)) for index, (key, pieces) in enumerate(self._calls)]

    @property
    def text_instead(self) -> bool:
        """Whether the model has answered, although it had to call a hosted tool."""
        return self._insists and not self._broken and self._finished is not None and not self._calls

    @property
    def held_text(self) -> Sequence[Chunk]:
        """The text of a model that had to call a hosted tool and did not."""
        return self._text

    @property
    def ends_response(self) -> bool:
        """Whether the client has to answer calls, so that no other round follows."""
        return self._other_calls

    @property
    def usage(self) -> Usage | None:
        """The usage of the turn, if its end is held."""
        return None if self._usage is None else self._usage.usage

    @property
    def ending(self) -> Sequence[Chunk]:
        """The end of the turn, which was held."""
        usage = [] if self._usage is None else [self._usage]
        return [*usage, *([] if self._finished is None else [self._finished])]

    def _take(self, chunk: Chunk) -> Sequence[Chunk]:
        match chunk:
            case CallStarted() | CallDelta() | CallFinished():
                return self._call(chunk)
            case TextDelta() if self._insists and not self._calls and not self._other_calls:
                self._text.append(chunk)
                return ()
            case UsageReported() if not self._broken:
                self._usage = chunk
                return ()
            case Finished(reason="stop" | "tool_calls") if not self._broken and self._holds_end:
                self._finished = chunk
                return ()
            case Finished() | Failed():
                self._broken = True
                return [*self._released(), *([] if self._usage is None else [self._usage]), chunk]
            case RefusalDelta():
                self._insists = False
                return [*self._released(), chunk]
            case _:
                return [chunk]

    @property
    def _holds_end(self) -> bool:
        return bool(self._calls) or (self._insists and not self._other_calls)

    def _call(self, chunk: CallStarted | CallDelta | CallFinished) -> Sequence[Chunk]:
        if isinstance(chunk, CallStarted):
            self._open.pop(chunk.index, None)
            if chunk.name in self._keys or chunk.name in self._spent:
                self._open[chunk.index] = pieces = list[str]()
                if chunk.name in self._keys:
                    self._calls.append((self._keys[chunk.name], pieces))
                return self._released()
            self._other_calls = True
            return [*self._released(), chunk]
        if chunk.index not in self._open:
            return [chunk]
        if isinstance(chunk, CallDelta):
            self._open[chunk.index].append(chunk.arguments)
        return ()

    def _released(self) -> list[Chunk]:
        held, self._text = self._text, []
        return held


def must_call_hosted(turn: TurnRequest) -> bool:
    """Whether the turn must call a tool, and all that it can call are run by this server."""
    if turn.choice in ("auto", "none") or not turn.tools or turn.hosted:
        return False
    return all(tool.kind == "hosted" for tool in turn.tools)


def _is_start(chunk: Chunk) -> bool:
    return isinstance(chunk, CallStarted)
