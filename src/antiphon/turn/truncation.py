"""Truncation: the oldest items are dropped until the rest fits. For `truncation: "auto"`.

Items that belong together are dropped together: a call with its output, reasoning with the item after it.
System and developer messages, tools that were declared in the conversation, the last user message and the
last item stay.
"""

from collections.abc import Sequence

from msgspec import Struct

from antiphon.protocol.items import Item, Message, OpaqueItem, Reasoning, call_id_of, is_call, is_output
from antiphon.protocol.stored_items import item_to_text
from antiphon.protocol.tool_items import AdditionalTools


class Truncated(Struct, frozen=True):
    """The remaining items, and the number of dropped ones."""

    items: Sequence[Item]
    dropped: int


def truncate(items: Sequence[Item], keep: float) -> Truncated:
    """The items without the oldest ones, down to the share `keep` (below 1) of their size if possible.

    It drops something if anything may be dropped, so repeated calls end with a result that dropped nothing.
    """
    last_user = max((index for index, item in enumerate(items) if _is_from(item, "user")), default=-1)
    excess = sum(map(_size, items)) * (1 - keep)
    dropped: set[int] = set()
    for unit in _droppable(items, last_user):
        # The rest begins with a user message if possible: some chat templates require it.
        if excess <= 0 and (unit[0] > last_user or _is_from(items[unit[0]], "user")):
            break
        dropped.update(unit)
        excess -= sum(_size(items[index]) for index in unit)
    left = [item for index, item in enumerate(items) if index not in dropped]
    return Truncated(left, len(dropped))


def _droppable(items: Sequence[Item], last_user: int) -> list[list[int]]:
    """Units without a protected item, oldest first."""
    protected = {
        index
        for index, item in enumerate(items)
        if _is_from(item, "system", "developer") or isinstance(item, AdditionalTools)
    }
    protected |= {last_user, len(items) - 1}
    return [unit for unit in _units(items) if protected.isdisjoint(unit)]


def _units(items: Sequence[Item]) -> list[list[int]]:
    """Indices of items that belong together. An output belongs to the latest call with its id."""
    units: list[list[int]] = []
    calls: dict[str, list[int]] = {}
    reasoning: list[int] = []
    for index, item in enumerate(items):
        if isinstance(item, Reasoning):
            reasoning.append(index)
            continue
        call_id = _call_id(item)
        unit = calls.get(call_id) if _is_output(item) else None
        if unit is None:
            unit = list[int]()
            units.append(unit)
        if call_id:
            calls[call_id] = unit
        unit += [*reasoning, index]
        reasoning.clear()
    return [*units, reasoning] if reasoning else units


def _call_id(item: Item) -> str:
    """The call id of a call or output; empty for other items."""
    if isinstance(item, OpaqueItem):
        found: object = item.body.get("call_id")
        return found if isinstance(found, str) else ""
    return (call_id_of(item) or "") if is_call(item) or is_output(item) else ""


def _is_output(item: Item) -> bool:
    return item.type.endswith("_output") if isinstance(item, OpaqueItem) else is_output(item)


def _is_from(item: Item, *roles: str) -> bool:
    return isinstance(item, Message) and item.role in roles


def _size(item: Item) -> int:
    return len(item_to_text(item))
