"""Begins items: gives them their ids, and sees to it that a call may be made and can be told from others."""

from collections.abc import Callable, Iterable, Mapping

from antiphon.errors import BackendBroken
from antiphon.turn.chunks import CallStarted
from antiphon.turn.context import TurnTool
from antiphon.turn.items import Emit, OpenCall, OpenMessage, OpenReasoning, Seal, tool_named

NewId = Callable[[str], str]


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

    def message(self, output_index: int) -> OpenMessage:
        """A message."""
        return OpenMessage(self.emit, self.new_id("msg"), output_index)

    def reasoning(self, output_index: int) -> OpenReasoning:
        """Reasoning."""
        return OpenReasoning(self.emit, self.new_id("rs"), output_index, self.seal)

    def admit(self, chunk: CallStarted) -> None:
        """Refuse a call that the caller has ruled out."""
        if chunk.name in self._forbidden:
            raise BackendBroken(f"The model called '{chunk.name}', which 'tool_choice' does not allow.")

    def call(self, chunk: CallStarted, output_index: int) -> OpenCall:
        """A call. Clients match outputs to calls by call_id, so it must be there and be unique."""
        call_id = chunk.call_id
        if not call_id or call_id in self._call_ids:
            call_id = self.new_id("call")
        self._call_ids.add(call_id)
        tool = tool_named(chunk.name, self._tools)
        item_id = self.new_id("ctc" if tool.kind == "custom" else "fc")
        return OpenCall(self.emit, (item_id, call_id), output_index, chunk.index, tool)

    def take_call_ids(self, call_ids: Iterable[str]) -> None:
        """These are used already."""
        self._call_ids.update(call_ids)
