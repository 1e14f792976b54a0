"""Reasoning that is sent back to the provider of the model: its text, and the provider's own state.

Only the provider can read its state: a signature, or an encrypted form. Clients receive it sealed in
`encrypted_content`. It is sent to the backend that produced it and to no other.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, UnsetType

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item, Reasoning


class ProviderState(Struct, frozen=True):
    """`origin` names the provider that can read `body`: a dialect, or one server of it."""

    origin: str
    body: JsonObject


class OpenedReasoning(Reasoning, tag="reasoning", frozen=True, omit_defaults=True, kw_only=True):
    """Reasoning in a model's view, with its envelope opened. Never stored, and never sent to clients."""

    states: tuple[ProviderState, ...] = ()

    def states_from(self, origin: str) -> list[JsonObject]:
        """The states of this provider, in order."""
        return [state.body for state in self.states if state.origin == origin]


def count_unopened(items: Iterable[Item]) -> int:
    """How many envelopes of reasoning could not be opened: another server's, or damaged ones."""
    return sum(
        isinstance(item, Reasoning)
        and not isinstance(item, OpenedReasoning)
        and not isinstance(item.encrypted_content, UnsetType)
        and not item.content
        for item in items
    )


Seal = Callable[[str, tuple[ProviderState, ...]], str | None]
"""Returns an envelope with this reasoning and these states; None if the item has no envelope."""
