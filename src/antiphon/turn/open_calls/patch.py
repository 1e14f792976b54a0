"""Calls of apply_patch. Clients need the complete operation when the item is added, so all events are sent at
the end."""

from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import ApplyPatchCallOperationDiffDelta, ApplyPatchCallOperationDiffDone
from antiphon.protocol.tool_items import ApplyPatchCall, ItemStatus
from antiphon.turn.emitting import Status
from antiphon.turn.function_forms.reading import read_patch
from antiphon.turn.open_calls.base import OpenCall


class OpenPatchCall(OpenCall):
    __slots__ = ()

    def close(self, status: Status) -> ApplyPatchCall:
        operation, fault = read_patch(self.written)
        diff = operation.get("diff")
        empty = operation if diff is None else {**operation, "diff": ""}
        self._added(self._item(empty, "in_progress"))
        if diff is not None:
            if diff:
                self._emit(ApplyPatchCallOperationDiffDelta, self.id, self.output_index, diff)
            self._emit(ApplyPatchCallOperationDiffDone, self.id, self.output_index, diff)
        item = self._item(operation, "incomplete" if fault else status)
        self._done(item)
        return item

    def _item(self, operation: JsonObject, status: ItemStatus) -> ApplyPatchCall:
        return ApplyPatchCall(id=self.id, call_id=self.call_id, operation=operation, status=status)
