"""Downgrades: the parts of a request that were emulated, changed or omitted, as data.

`render` turns them into the strings that a response lists. The compatible endpoints render the same values
with the parameter names of their own API.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

DowngradeCode = Literal[
    "constraint_violated",
    "emulated",
    "fallback_model",
    "input_omitted",
    "input_rewritten",
    "items_truncated",
    "not_enforced",
    "not_sent",
    "not_stored",
    "not_used",
    "output_limit",
    "output_omitted",
    "reasoning_disabled",
    "repaired",
    "search_limit",
    "tool_limit",
    "tool_omitted",
    "value_changed",
]
"""`docs/reference/http-api.md` describes each of them."""

PARAM = "{param}"
"""The placeholder in a text for the names of the parameters."""

_OWN_NAMES: Mapping[str, str] = {}


class Downgrade(Struct, frozen=True):
    """One downgrade. `params` are the affected parameters, by their names in the Responses API."""

    code: DowngradeCode
    text: str
    params: tuple[str, ...] = ()

    def render(self, names: Mapping[str, str] = _OWN_NAMES) -> str:
        """The sentence. `names` maps a parameter of the Responses API to its name in another API."""
        if not self.params:
            return self.text
        return self.text.replace(PARAM, ", ".join(names.get(param, param) for param in self.params), 1)


class Downgrades(list[Downgrade]):
    """The downgrades of one turn, each of them once, in the order in which they were found."""

    def add(self, code: DowngradeCode, text: str, *params: str) -> None:
        """Append a downgrade, unless the list contains it."""
        downgrade = Downgrade(code, text, params)
        if downgrade not in self:
            self.append(downgrade)


def rendered(downgrades: Iterable[Downgrade], names: Mapping[str, str] = _OWN_NAMES) -> list[str]:
    """The sentences, as a response lists them."""
    return [downgrade.render(names) for downgrade in downgrades]
