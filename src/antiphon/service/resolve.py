"""What a request stands on: its history, its references replaced, its tools inherited, its outputs checked.

Two forms of the same items: as they are stored (with ids, sealed), and as the model sees them (opened).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.call_items import ANSWERED_BY, CallItem, OutputOfCall, call_id_of, is_call, is_output
from antiphon.protocol.content import ReasoningText
from antiphon.protocol.items import CompactionTrigger, Item, ItemReference, OpaqueItem, Reasoning
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response
from antiphon.protocol.stored_items import item_id, item_type
from antiphon.protocol.tools import Tool
from antiphon.store.base import Continuation
from antiphon.store.ports import Stores
from antiphon.turn.provider_state import OpenedReasoning
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
    "computer_call": "cu",
    "computer_call_output": "cuo",
}
CONVERSATION_LEASE = 60.0
"""Seconds for which a response holds its conversation without saying that it is still at work."""


NOTHING = Continuation(())


class Session(Protocol):
    """The memory of one connection: responses that are stored nowhere else."""

    def recall(self, response_id: str) -> Continuation | None:
        """What such a response ended with."""
        ...

    def remember(self, response: Response, items: Sequence[Item], tools: tuple[Tool, ...]) -> None:
        """Keep a response with everything that was said up to its end."""
        ...


@dataclass(frozen=True, slots=True)
class Resolved:
    """A request with what it stands on. Its items hold no references, and have ids if they are kept."""

    request: CreateResponse
    history: Sequence[Item] = ()
    rooted: bool = True
    """Whether the store knows the history; if not, it must be stored with the response."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Finds what a request of one tenant refers to."""

    store: Stores
    new_id: Callable[[str], str]
    inherit_tools: bool
    tenant: str
    session: Session | None = None

    async def resolve(self, request: CreateResponse, response_id: str) -> Resolved:
        """Look everything up; a conversation is locked for this response."""
        base, rooted = NOTHING, True
        if request.params.previous_response_id is not None:
            base, rooted = await self._continued(request.params.previous_response_id)
        elif request.conversation_id is not None:
            base = await self.store.conversations.enter(
                self.tenant, request.conversation_id, response_id, CONVERSATION_LEASE
            )
        if base.tools and self.inherit_tools and not request.tools:
            request = replace(request, tools=base.tools)
        if any(isinstance(item, ItemReference) for item in request.items):
            request = replace(request, items=await self._dereferenced(request.items))
        check_outputs(base.items, request.items)
        if request.stored or self.session is not None:
            request = replace(request, items=identified(request.items, self.new_id, base.items))
        return Resolved(request, base.items, rooted)

    async def _continued(self, parent: str) -> tuple[Continuation, bool]:
        recalled = self.session.recall(parent) if self.session is not None else None
        if recalled is not None:
            return recalled, False
        return await self.store.responses.continuation(self.tenant, parent), True

    async def _dereferenced(self, items: Iterable[Item]) -> tuple[Item, ...]:
        return tuple(
            [
                (await self.store.responses.item(self.tenant, item.id)).item
                if isinstance(item, ItemReference)
                else item
                for item in items
            ]
        )


def check_outputs(history: Iterable[Item], items: Sequence[Item]) -> None:
    """An output that belongs to no call would be lost on the model, or refused by its server; one for a call
    of another kind would not be what the model asked for."""
    if not any(is_output(item) for item in items):
        return
    calls = {
        tie: item for part in (history, items) for item in part if is_call(item) and (tie := call_id_of(item))
    }
    for index, item in enumerate(items):
        if is_output(item) and (tie := call_id_of(item)) is not None:
            _check_output(item, calls.get(tie), f"input[{index}].call_id")


def _check_output(output: OutputOfCall, call: CallItem | None, param: str) -> None:
    if call is None:
        message = f"No tool call found for the output with call_id '{call_id_of(output)}'."
        raise InvalidRequest(message, param=param, code="invalid_value")
    wanted = ANSWERED_BY[type(call)]
    if not isinstance(output, wanted):
        message = (
            f"'{call_id_of(output)}' is a '{item_type(call)}', which is answered with an item of type "
            f"'{wanted.__struct_config__.tag}', not '{item_type(output)}'."
        )
        raise InvalidRequest(message, param=param, code="invalid_value")


def identified(
    items: Sequence[Item], new_id: Callable[[str], str], known: Iterable[Item] = ()
) -> tuple[Item, ...]:
    """Items that can be told apart: each with an id that neither the `known` ones have nor one before it.

    An id that comes again, because a client sends an item twice or refers to it, is replaced: whoever pages
    through a list names the last item that was seen, and must not be thrown back or forth.
    """
    if not any(item_id(item) for item in items):
        return tuple(with_id(item, new_id) for item in items)
    taken = {item_id(item) for item in known}
    found: list[Item] = []
    for item in items:
        kept = with_id(item, new_id, fresh=item_id(item) in taken)
        taken.add(item_id(kept))
        found.append(kept)
    return tuple(found)


def kept_items(items: Iterable[Item]) -> tuple[Item, ...]:
    """What of a request is stored: a trigger has done its work when the compaction is there."""
    return tuple(item for item in items if not isinstance(item, CompactionTrigger))


def with_id(item: Item, new_id: Callable[[str], str], *, fresh: bool = False) -> Item:
    """Stored items have ids, so that they can be referred to."""
    if item_id(item) and not fresh:
        return item
    made = new_id(ID_PREFIXES.get(item_type(item), "item"))
    if isinstance(item, OpaqueItem):
        return OpaqueItem(item.type, {**item.body, "id": made})
    return replace(item, id=made)


def model_view(items: Sequence[Item], sealer: Sealer) -> list[Item]:
    """The items as the model sees them: envelopes opened; no call that broke off and was not answered, and
    no output whose call was taken out of the conversation."""
    if not any(isinstance(item, Reasoning) or is_call(item) or is_output(item) for item in items):
        return list(items)
    answered = {call_id_of(item) for item in items if is_output(item)}
    called = {None, *(call_id_of(item) for item in items if is_call(item))}
    return [
        _opened(item, sealer)
        for item in items
        if not _broken_off(item, answered) and not (is_output(item) and call_id_of(item) not in called)
    ]


def _opened(item: Item, sealer: Sealer) -> Item:
    """Reasoning with what its envelope holds: the text, if it does not stand open already, and the marks."""
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
        marks=sealed.marks,
    )


def _broken_off(item: Item, answered: set[str | None]) -> bool:
    return is_call(item) and item.status == "incomplete" and call_id_of(item) not in answered
