"""Calls of custom tools: the text in the model's JSON is streamed."""

from msgspec import UNSET

from antiphon.protocol.events import CustomToolCallInputDelta, CustomToolCallInputDone
from antiphon.protocol.items import CustomToolCall
from antiphon.protocol.tool_items import ItemStatus
from antiphon.turn.emitting import Emit, Status
from antiphon.turn.function_forms.input_text import InputText
from antiphon.turn.open_calls.base import CallPlace, OpenCall
from antiphon.turn.tools import TurnTool


class OpenCustomCall(OpenCall):
    __slots__ = ("_text",)

    def __init__(self, emit: Emit, place: CallPlace, tool: TurnTool) -> None:
        super().__init__(emit, place, tool)
        self._text = InputText()
        self._added(self._item("", "in_progress"))

    def extend(self, delta: str) -> None:
        super().extend(delta)
        self._emit_delta(self._text.feed(delta))

    def resume(self, text: str) -> None:
        """Continue after `text`, which an earlier attempt emitted."""
        self._text.resume(text)
        self._emit_delta(text)

    def close(self, status: Status) -> CustomToolCall:
        self._emit_delta(self._text.end(self.written))
        text = self._text.text
        self._emit(CustomToolCallInputDone, self.id, self.output_index, text)
        item = self._item(text, status)
        self._done(item)
        return item

    def _emit_delta(self, text: str) -> None:
        if text:
            self._emit(CustomToolCallInputDelta, self.id, self.output_index, text)

    def _item(self, text: str, status: ItemStatus) -> CustomToolCall:
        return CustomToolCall(
            id=self.id,
            call_id=self.call_id,
            name=self._tool.origin,
            input=text,
            namespace=self._tool.namespace or UNSET,
            status=status,
        )
