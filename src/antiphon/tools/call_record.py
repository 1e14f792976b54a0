"""The record of calls: it makes tool calls safe to resume after a crash.

A loop writes `CallStarted` before it runs a tool and `CallEnded` before it uses the result. Both writes are
durable when they return, and both carry the fencing token of the attempt that makes them: the holder of a
newer token has taken the work over, and writes with an older one raise `Fenced`, so nobody acts on them. The
next attempt finds every call in one of these states:

    not recorded         run it
    started, ended       do not run it; use the recorded result
    started, not ended   it was cut off: run it again if that does no harm, else report its outcome as unknown

`next_step` decides that. `CallRecord` is the port; the log of an agent run implements it, `MemoryCallRecord`
is for work that does not outlive its process.
"""

from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from antiphon.errors import Fenced
from antiphon.tools.declaration import ToolOutput

Outcome = Literal["ok", "error", "timeout", "suppressed", "interrupted", "handed", "rejected"]
"""How a call ended: the tool returned; raised or does not exist; passed its deadline; was not run because the
model repeated the call; was cut off by a crash, so that its effect is unknown; was handed to the client; was
not run because a person rejected it, or because nobody approved it."""

NextStep = Literal["run", "use_result", "report_unknown"]


class CallKey(NamedTuple):
    """Identifies a call. Some servers number the calls of every turn from zero, so the turn is part of it."""

    turn: int
    call_id: str


class CallStarted(Struct, frozen=True, kw_only=True):
    """A call is about to be answered."""

    key: CallKey
    name: str
    arguments: str
    runs: bool = True
    """Whether a tool is run. If not, a crash before the end leaves no unknown effect."""


class CallEnded(Struct, frozen=True, kw_only=True):
    """The answer to a call."""

    outcome: Outcome
    result: ToolOutput
    elapsed_ms: int = 0


class RecordedCall(Struct, frozen=True):
    """The record of a call."""

    started: CallStarted
    ended: CallEnded | None = None


class CallRecord(Protocol):
    """The calls of one piece of work, as one attempt sees and writes them."""

    def find(self, key: CallKey) -> RecordedCall | None:
        """The record of a call, by this attempt or an earlier one; None if there is no record."""
        ...

    async def start(self, call: CallStarted) -> None:
        """Record, durably, that a call is about to be answered. Raises `Fenced`.

        An attempt that answers a cut-off call again does not record a second start.
        """
        ...

    async def end(self, key: CallKey, ended: CallEnded) -> None:
        """Record, durably, the answer to a started call. Raises `Fenced`."""
        ...


def next_step(recorded: RecordedCall | None, *, has_side_effects: bool) -> NextStep:
    """The next step for a call. `has_side_effects`: whether running it twice could do harm."""
    if recorded is None:
        return "run"
    if recorded.ended is not None:
        return "use_result"
    return "report_unknown" if recorded.started.runs and has_side_effects else "run"


class CallMemory:
    """The calls of one piece of work, in memory, and the newest fencing token."""

    def __init__(self) -> None:
        self.calls: dict[CallKey, RecordedCall] = {}
        self.token = 0

    def attempt(self) -> "MemoryCallRecord":
        """The record for a new attempt, which fences off all earlier ones."""
        self.token += 1
        return MemoryCallRecord(self, self.token)


class MemoryCallRecord:
    """The port `CallRecord` over a `CallMemory`."""

    def __init__(self, memory: CallMemory, token: int) -> None:
        self._memory = memory
        self._token = token

    def find(self, key: CallKey) -> RecordedCall | None:
        return self._memory.calls.get(key)

    async def start(self, call: CallStarted) -> None:
        self._check_token()
        self._memory.calls[call.key] = RecordedCall(call)

    async def end(self, key: CallKey, ended: CallEnded) -> None:
        self._check_token()
        self._memory.calls[key] = RecordedCall(self._memory.calls[key].started, ended)

    def _check_token(self) -> None:
        if self._token != self._memory.token:
            raise Fenced
