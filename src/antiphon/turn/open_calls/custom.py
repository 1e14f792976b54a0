"""A call of a custom tool: the text inside the model's JSON is told while it is written."""

from msgspec import UNSET

from antiphon.protocol.events import CustomToolCallInputDelta, CustomToolCallInputDone
from antiphon.protocol.items import CustomToolCall
from antiphon.protocol.tool_items import ItemStatus
from antiphon.turn.emitting import Emit, Status
from antiphon.turn.function_forms.input_text import InputText
from antiphon.turn.open_calls.base import CallPlace, OpenCall
from antiphon.turn.tools import TurnTool


class OpenCustomCall(OpenCall):
    """Free text."""

    __slots__ = ("_text",)

    def __init__(self, emit: Emit, place: CallPlace, tool: TurnTool) -> None:
        super().__init__(emit, place, tool)
        self._text = InputText()
        self._added(self._item("", "in_progress"))

    def extend(self, delta: str) -> None:
        """More of the JSON."""
        super().extend(delta)
        self._say(self._text.feed(delta))

    def go_on(self, told: str) -> None:
        """This was told by an earlier attempt."""
        self._text.tell(told)
        self._say(told)

    def close(self, status: Status) -> CustomToolCall:
        """End the call."""
        self._say(self._text.end(self.written))
        text = self._text.text
        self._emit(CustomToolCallInputDone, self.id, self.output_index, text)
        item = self._item(text, status)
        self._done(item)
        return item

    def _say(self, text: str) -> None:
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
