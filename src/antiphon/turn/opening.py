"""Begins items: gives them ids, rejects calls that are not allowed, makes call ids unique."""

from collections.abc import Callable, Iterable, Mapping

from antiphon.errors import BackendBroken
from antiphon.protocol.content import JsonObject
from antiphon.turn.chunks import CallStarted, HostedItemBegun
from antiphon.turn.emitting import Emit
from antiphon.turn.hosted import PREFIXES, OpenHosted
from antiphon.turn.items import OpenMessage, OpenReasoning
from antiphon.turn.open_calls.base import CallPlace, OpenCall
from antiphon.turn.open_calls.custom import OpenCustomCall
from antiphon.turn.open_calls.function import OpenFunctionCall
from antiphon.turn.open_calls.patch import OpenPatchCall
from antiphon.turn.open_calls.shell import OpenShellCall
from antiphon.turn.open_calls.unstreamed import OpenComputerCall, OpenLocalShellCall, OpenToolSearch
from antiphon.turn.provider_state import Seal
from antiphon.turn.tools import ToolKind, TurnTool

NewId = Callable[[str], str]

_CALLS: Mapping[ToolKind, tuple[str, type[OpenCall]]] = {
    "function": ("fc", OpenFunctionCall),
    "custom": ("ctc", OpenCustomCall),
    "tool_search": ("tsc", OpenToolSearch),
    "apply_patch": ("apc", OpenPatchCall),
    "shell": ("sh", OpenShellCall),
    "local_shell": ("lsh", OpenLocalShellCall),
    "computer": ("cu", OpenComputerCall),
}
"""The open call of each kind, and the prefix of its item id."""


class Opener:
    """Opens the items of one response."""

    def __init__(
        self,
        emit: Emit,
        new_id: NewId,
        tools: Mapping[str, TurnTool],
        forbidden: frozenset[str],
        seal: Seal | None,
    ) -> None:
        self.emit = emit
        self.new_id = new_id
        self.seal = seal
        self._tools = tools
        self._forbidden = forbidden
        self._call_ids: set[str] = set()
        self.private: dict[str, JsonObject] = {}
        """The private sides of finished items, by item id."""

    def message(self, output_index: int, phase: str | None = None) -> OpenMessage:
        return OpenMessage(self.emit, self.new_id("msg"), output_index, phase)

    def reasoning(self, output_index: int) -> OpenReasoning:
        return OpenReasoning(self.emit, self.new_id("rs"), output_index, self.seal)

    def admit(self, chunk: CallStarted) -> None:
        """Raise `BackendBroken` for a call that the caller has excluded."""
        if chunk.name in self._forbidden:
            raise BackendBroken(f"The model called '{chunk.name}', which 'tool_choice' does not allow.")

    def call(self, chunk: CallStarted, output_index: int) -> OpenCall:
        """Open a call. Its call id is unique, because clients match outputs to calls by it. An unknown name
        is the name of a function."""
        call_id = chunk.call_id
        if not call_id or call_id in self._call_ids:
            call_id = self.new_id("call")
        self._call_ids.add(call_id)
        tool = self._tools.get(chunk.name) or TurnTool(name=chunk.name, origin=chunk.name)
        if tool.kind == "hosted":
            raise AssertionError("calls of hosted tools are run by their stage, and never opened here")
        prefix, kind = _CALLS[tool.kind]
        return kind(self.emit, CallPlace(self.new_id(prefix), call_id, output_index, chunk.index), tool)

    def take_call_ids(self, call_ids: Iterable[str]) -> None:
        """Reserve call ids that are already in use."""
        self._call_ids.update(call_ids)

    def hosted(self, chunk: HostedItemBegun, output_index: int) -> OpenHosted:
        """Open the item of a hosted tool that starts."""
        item_id = self.new_id(PREFIXES[type(chunk.item)])
        return OpenHosted(self.emit, item_id, output_index, chunk.item, chunk.index)

    def set_tools(self, tools: Mapping[str, TurnTool], forbidden: frozenset[str]) -> None:
        """Replace the tools."""
        self._tools, self._forbidden = tools, forbidden
