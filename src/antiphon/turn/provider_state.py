"""Reasoning as a model's server may take it back: its text, and the marks of whoever made it.

A mark is what only its maker can read: a signature, an encrypted form. It travels sealed in
`encrypted_content`, is shown to the backend that made it, and means nothing to any other.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, UnsetType

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item, Reasoning


class ProviderState(Struct, frozen=True):
    """`origin` names who can read the `body`: a dialect, or one server of it."""

    origin: str
    body: JsonObject


class OpenedReasoning(Reasoning, tag="reasoning", frozen=True, omit_defaults=True, kw_only=True):
    """Reasoning in a model's view, with its envelope opened. Never stored, and never sent to clients."""

    marks: tuple[ProviderState, ...] = ()

    def states_from(self, origin: str) -> list[JsonObject]:
        """What this maker left in it, in order."""
        return [mark.body for mark in self.marks if mark.origin == origin]


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
"""An envelope for this reasoning and these marks, or None if it shall have none."""
