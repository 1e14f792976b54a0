"""Calls and outputs among the items: which output answers which call, and what ties the two together."""

from collections.abc import Iterable
from typing import TypeGuard, cast

from msgspec import Struct, UnsetType

from antiphon.protocol.items import (
    ClientCall,
    ClientOutput,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
)
from antiphon.protocol.tool_items import (
    ApplyPatchCall,
    ApplyPatchCallOutput,
    ComputerCall,
    ComputerCallOutput,
    LocalShellCall,
    LocalShellCallOutput,
    ShellCall,
    ShellCallOutput,
    ToolSearchCall,
    ToolSearchOutput,
)

CallItem = FunctionCall | CustomToolCall | ClientCall
OutputOfCall = FunctionCallOutput | CustomToolCallOutput | ClientOutput

ANSWERED_BY: dict[type[Struct], type[Struct]] = {
    FunctionCall: FunctionCallOutput,
    CustomToolCall: CustomToolCallOutput,
    ToolSearchCall: ToolSearchOutput,
    ApplyPatchCall: ApplyPatchCallOutput,
    ShellCall: ShellCallOutput,
    LocalShellCall: LocalShellCallOutput,
    ComputerCall: ComputerCallOutput,
}
"""The one kind of output that each kind of call takes."""

_CALLS = frozenset(ANSWERED_BY)
_OUTPUTS = frozenset(ANSWERED_BY.values())


def is_call(item: Item) -> TypeGuard[CallItem]:
    """Whether the model calls a tool in it."""
    return type(item) in _CALLS


def is_output(item: Item) -> TypeGuard[OutputOfCall]:
    """Whether it holds what came of a call."""
    return type(item) in _OUTPUTS


def calls_in(items: Iterable[Item]) -> list[CallItem]:
    """The calls among the items. There may be thousands, so this is one loop without a function call."""
    return cast("list[CallItem]", [item for item in items if type(item) in _CALLS])


def outputs_in(items: Iterable[Item]) -> list[OutputOfCall]:
    """The outputs of calls among the items."""
    return cast("list[OutputOfCall]", [item for item in items if type(item) in _OUTPUTS])


def call_id_of(item: CallItem | OutputOfCall) -> str | None:
    """What a call and its output have in common; None where the server did the work itself."""
    return None if isinstance(item.call_id, UnsetType) else item.call_id


def is_for_client(item: Item) -> bool:
    """Whether the model waits for the client: it calls a tool that the server does not run itself."""
    return is_call(item) and call_id_of(item) is not None
