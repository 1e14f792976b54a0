"""Calls in an answer as chunks for the machine: JSON, for every kind of tool (`turn/function_forms/`)."""

from typing import cast

import msgspec

from antiphon.backends.responses.stream_items import UpstreamItem
from antiphon.backends.responses.tools import Names
from antiphon.backends.responses.wire import ItemWire
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import CallItem
from antiphon.protocol.tool_items import (
    ApplyPatchCall,
    ComputerCall,
    LocalShellCall,
    ShellCall,
    ToolSearchCall,
)
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk
from antiphon.turn.function_forms.calls import INPUT, call_arguments
from antiphon.turn.tools import ToolKind

_OPENING, _CLOSING = f'{{"{INPUT}":"', '"}'
_CUSTOM = "custom_tool_call"

STREAMED_CALLS = ("function_call", _CUSTOM)
"""Calls that are emitted while they are written."""
COMPLETE_CALLS: dict[str, tuple[ToolKind, type[CallItem]]] = {
    "tool_search_call": ("tool_search", ToolSearchCall),
    "apply_patch_call": ("apply_patch", ApplyPatchCall),
    "shell_call": ("shell", ShellCall),
    "local_shell_call": ("local_shell", LocalShellCall),
    "computer_call": ("computer", ComputerCall),
}
"""Calls that are emitted when they are complete."""


class CallWriter:
    """Emits the calls of one answer."""

    def __init__(self, chunks: list[Chunk], names: Names) -> None:
        self._chunks = chunks
        self._names = names
        self.count = 0

    def start(self, item: UpstreamItem, wire: ItemWire) -> None:
        """Begin a call of a function or of a custom tool, as soon as its name is known."""
        if item.call < 0:
            item.call = self.count
            self.count += 1
        if item.name or not wire.name:
            return
        item.name = self._names.of_call(wire.namespace, wire.name)
        self._chunks.append(CallStarted(item.call, wire.call_id or "", item.name))
        if item.kind == _CUSTOM:
            self._chunks.append(CallDelta(item.call, _OPENING))
        for piece in item.text("arguments").pieces:
            self._emit(item, piece)

    def extend(self, item: UpstreamItem, piece: str) -> None:
        """Add a delta."""
        self.start(item, item.wire)
        item.text("arguments").pieces.append(piece)
        self._emit(item, piece)

    def settle(self, item: UpstreamItem, complete: object) -> None:
        """Emit the missing part of the complete arguments."""
        self.start(item, item.wire)
        text = complete if complete is None or isinstance(complete, str) else _json(complete)
        rest = item.text("arguments").rest(text)
        if rest:
            self._emit(item, rest)

    def end_streamed(self, item: UpstreamItem, complete: ItemWire) -> None:
        """A call is complete, or was cut off."""
        self.start(item, complete)
        self.settle(item, complete.input if item.kind == _CUSTOM else complete.arguments)
        self.end(item, cut=complete.status == "incomplete")

    def end(self, item: UpstreamItem, *, cut: bool) -> None:
        """The call is over. One that was `cut` short is left as it is."""
        item.done = True
        if item.name and not cut:
            if item.kind == _CUSTOM:
                self._chunks.append(CallDelta(item.call, _CLOSING))
            self._chunks.append(CallFinished(item.call))

    def emit_complete(self, kind: ToolKind, call: CallItem) -> None:
        """A call in one piece."""
        arguments = _with_checks(call)
        if call.status == "incomplete":
            arguments = arguments[:-1]  # so that it does not parse as complete
        self._chunks.append(CallStarted(self.count, call.call_id or "", self._names.of_kind(kind)))
        self._chunks.append(CallDelta(self.count, arguments))
        self._chunks.append(CallFinished(self.count))
        self.count += 1

    def _emit(self, item: UpstreamItem, piece: str) -> None:
        if item.name:
            text = _json(piece)[1:-1] if item.kind == _CUSTOM else piece
            self._chunks.append(CallDelta(item.call, text))


def search_arguments(given: object) -> JsonObject:
    """The arguments of a tool search; some servers send them as text."""
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError:
            return {"query": given}
    return cast("JsonObject", given) if isinstance(given, dict) else {}


def _with_checks(call: CallItem) -> str:
    """The arguments; for a computer call, with the safety checks of its server."""
    arguments = call_arguments(call)
    if isinstance(call, ComputerCall) and call.pending_safety_checks:
        checks = {"pending_safety_checks": call.pending_safety_checks}
        return _json({**msgspec.json.decode(arguments, type=JsonObject), **checks})
    return arguments


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
