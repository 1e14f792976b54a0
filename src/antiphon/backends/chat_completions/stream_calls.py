"""Tool calls in a stream: which delta belongs to which call.

The protocol identifies calls by `index`; servers forget it, repeat it, or change ids in mid-call. A delta
begins a new call if its index is new, or if it brings a name together with an id that its index did not
have, or if it is a complete call without an id after a complete one. A new id alone is no
new call: some servers make one up for every delta.
"""

from collections.abc import Iterable

import msgspec

from antiphon.backends.chat_completions.wire import CallWire, FunctionWire
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk


class _Call:
    """An open call. It is announced when its name is known."""

    __slots__ = ("arguments", "id", "index", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def is_complete(self) -> bool:
        """Whether its arguments are complete JSON."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False  # cheap, and true for nearly every delta
        try:
            msgspec.json.decode("".join(self.arguments))
        except (msgspec.DecodeError, RecursionError):
            return False
        return True


class CallTracker:
    """The calls of one answer."""

    def __init__(self) -> None:
        self._slots: dict[int, _Call] = {}
        self._last: _Call | None = None
        self._count = 0

    @property
    def any(self) -> bool:
        """Whether a call was made."""
        return self._count > 0

    @property
    def nameless(self) -> bool:
        """Whether a call never got its name."""
        return any(not call.name for call in self._slots.values())

    def take(self, wires: Iterable[CallWire], chunks: list[Chunk]) -> None:
        """Append the chunks of these deltas."""
        for wire in wires:
            call = self._find(wire)
            if call is None or _is_another(call, wire):
                call = self._begin(wire, chunks)
            self._last = call
            _extend(call, wire, chunks)

    def _find(self, wire: CallWire) -> _Call | None:
        if wire.index is not None:
            return self._slots.get(wire.index)
        if wire.id:
            return next((call for call in self._slots.values() if call.id == wire.id), None)
        return self._last

    def _begin(self, wire: CallWire, chunks: list[Chunk]) -> _Call:
        call = _Call(self._count)
        self._count += 1
        # Without an index a call gets a place that no index can have.
        slot = wire.index if wire.index is not None else -self._count
        if slot in self._slots:
            chunks.append(CallFinished(self._slots[slot].index))
        self._slots[slot] = call
        return call


def _is_another(call: _Call, wire: CallWire) -> bool:
    function = wire.function
    if function is None or not function.name or not call.name:
        return False
    if wire.id and call.id:
        return wire.id != call.id
    return not wire.id and bool(function.arguments) and call.is_complete()


def _extend(call: _Call, wire: CallWire, chunks: list[Chunk]) -> None:
    function = wire.function or FunctionWire()
    call.id = call.id or wire.id or ""
    arguments = _text(function.arguments)
    if arguments:
        call.arguments.append(arguments)
    if call.name:
        if arguments:
            chunks.append(CallDelta(call.index, arguments))
    elif function.name:
        call.name = function.name
        chunks.append(CallStarted(call.index, call.id, call.name))
        if call.arguments:
            chunks.append(CallDelta(call.index, "".join(call.arguments)))


def _text(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()
