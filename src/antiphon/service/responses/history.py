"""Items in their two forms: as they are stored (with ids, sealed), and as the model sees them (opened).

No I/O: `context.py` reads them from the store.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import ReasoningText
from antiphon.protocol.items import (
    ANSWERED_BY,
    CallItem,
    Compaction,
    CompactionTrigger,
    Item,
    OpaqueItem,
    OutputOfCall,
    Reasoning,
    call_id_of,
    calls_in,
    is_call,
    is_output,
    outputs_in,
)
from antiphon.protocol.stored_items import item_id, item_type
from antiphon.turn.provider_state import OpenedReasoning, count_unopened
from antiphon.turn.sealing import Sealer

ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "compaction": "cmp",
    "additional_tools": "at",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsho",
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "computer_call": "cu",
    "computer_call_output": "cuo",
}
_CALLS = frozenset(ANSWERED_BY)
_OUTPUTS = frozenset(ANSWERED_BY.values())
_COMPACTION = frozenset((Compaction, CompactionTrigger))


class ModelView(Struct, frozen=True):
    """The items that the model sees. `unopened`: how many envelopes of reasoning could not be opened;
    `compacts`: there is a compaction among them, or the request for one."""

    items: Sequence[Item]
    unopened: int = 0
    compacts: bool = False


def model_view(items: Sequence[Item], sealer: Sealer) -> ModelView:
    """Open the envelopes; leave out calls that broke off and have no output, and outputs without a call."""
    kinds = set(map(type, items))  # one fast pass decides which of the slow ones are needed
    shown, unopened = items, 0
    if not kinds.isdisjoint(_CALLS) or not kinds.isdisjoint(_OUTPUTS):
        shown = _paired(shown)
    if Reasoning in kinds or OpenedReasoning in kinds:
        shown = [_opened(item, sealer) for item in shown]
        unopened = count_unopened(shown)
    return ModelView(shown, unopened, not kinds.isdisjoint(_COMPACTION))


def _paired(items: Sequence[Item]) -> list[Item]:
    calls, outputs = calls_in(items), outputs_in(items)
    called = {None, *map(call_id_of, calls)}
    unpaired: list[Item] = [output for output in outputs if call_id_of(output) not in called]
    broken_off = [call for call in calls if call.status == "incomplete"]
    answered = set(map(call_id_of, outputs)) if broken_off else set[str | None]()
    for call in broken_off:
        if call_id_of(call) not in answered:
            unpaired.append(call)
    if not unpaired:
        return list(items)
    dropped = set(map(id, unpaired))
    return [item for item in items if id(item) not in dropped]


def _opened(item: Item, sealer: Sealer) -> Item:
    """Reasoning with the content of its envelope: the text, unless it is in the item, and provider state."""
    if not isinstance(item, Reasoning) or isinstance(item.encrypted_content, UnsetType):
        return item
    sealed = sealer.open(item.encrypted_content)
    if sealed is None:
        return item
    text = sealed.reasoning or ""
    content = item.content or ([ReasoningText(text)] if text else UNSET)
    return OpenedReasoning(
        id=item.id,
        summary=item.summary,
        content=content,
        encrypted_content=item.encrypted_content,
        status=item.status,
        states=sealed.marks,
    )


def check_outputs(history: Iterable[Item], items: Sequence[Item]) -> None:
    """Reject an output without a call, which the model could not use and its server might reject, and an
    output of another kind than its call."""
    if _OUTPUTS.isdisjoint(map(type, items)):
        return
    calls = {
        call_id: item
        for part in (history, items)
        for item in part
        if is_call(item) and (call_id := call_id_of(item))
    }
    for index, item in enumerate(items):
        if is_output(item) and (call_id := call_id_of(item)) is not None:
            _check_output(item, calls.get(call_id), f"input[{index}].call_id")


def _check_output(output: OutputOfCall, call: CallItem | None, param: str) -> None:
    if call is None:
        message = f"No tool call found for the output with call_id '{call_id_of(output)}'."
        raise InvalidRequest(message, param=param, code="invalid_value")
    expected = ANSWERED_BY[type(call)]
    if not isinstance(output, expected):
        message = (
            f"'{call_id_of(output)}' is a '{item_type(call)}', which is answered with an item of type "
            f"'{expected.__struct_config__.tag}', not '{item_type(output)}'."
        )
        raise InvalidRequest(message, param=param, code="invalid_value")


def identified(
    items: Sequence[Item], new_id: Callable[[str], str], known: Iterable[Item] = ()
) -> tuple[Item, ...]:
    """The items with ids that are unique among them and among the `known` ones.

    An id that occurs again, because a client sends an item twice or refers to it, is replaced: a client that
    pages through a list names the last item that it has seen, and must not be sent to another one.
    """
    if not any(item_id(item) for item in items):
        return tuple(with_id(item, new_id) for item in items)
    taken = {item_id(item) for item in known}
    found: list[Item] = []
    for item in items:
        with_own = with_id(item, new_id, replace_id=item_id(item) in taken)
        taken.add(item_id(with_own))
        found.append(with_own)
    return tuple(found)


def with_id(item: Item, new_id: Callable[[str], str], *, replace_id: bool = False) -> Item:
    """Stored items have ids, so that clients can refer to them."""
    if item_id(item) and not replace_id:
        return item
    made = new_id(ID_PREFIXES.get(item_type(item), "item"))
    if isinstance(item, OpaqueItem):
        return OpaqueItem(item.type, {**item.body, "id": made})
    return replace(item, id=made)


def storable_items(items: Iterable[Item]) -> tuple[Item, ...]:
    """The items of a request that are stored: all but the request for a compaction, which is done."""
    return tuple(item for item in items if not isinstance(item, CompactionTrigger))
