"""Draws how responses continue each other. A line of turns stays in its column; a branch gets its own.

● resp_1
● resp_2
├─● resp_4    a second continuation of resp_2
│ ● resp_5
● resp_3
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from antiphon.store.base import StoredResponse, response_not_found

NODE = "●"
CUT = "┄"
"""Above a response whose beginning is not here."""

_ENDED_BADLY = frozenset({"failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the drawing: what leads to it, and the response; None where the beginning is missing."""

    lead: str
    stored: StoredResponse | None


class Forest:
    """Responses by what they continue. Takes them newest first, as stores list them."""

    def __init__(self, newest_first: Iterable[StoredResponse]) -> None:
        oldest_first = list(newest_first)[::-1]
        self._responses = {stored.response.id: stored for stored in oldest_first}
        self._parents = parents_of(oldest_first)
        self._children: dict[str, list[str]] = {}
        for child, parent in self._parents.items():
            self._children.setdefault(parent, []).append(child)

    @property
    def roots(self) -> list[str]:
        """Where the trees begin, oldest first; what they continue is not here, or nothing."""
        return [found for found in self._responses if self._parents.get(found) not in self._responses]

    def root_of(self, response_id: str) -> str:
        """Where the tree of this response begins."""
        if response_id not in self._responses:
            raise response_not_found(response_id)
        while (parent := self._parents.get(response_id)) in self._responses:
            response_id = parent
        return response_id

    def draw(self, root: str) -> Iterator[Line]:
        """One tree, a line per response. Branches stand between a response and its first continuation."""
        if root in self._parents:
            yield Line(CUT, None)
        waiting = [("", "", root)]
        while waiting:
            column, turn_off, found = waiting.pop()
            yield Line(f"{column}{turn_off}{NODE}", self._responses[found])
            column = f"{column}│ " if turn_off else column
            first, branches = self._continuations(found)
            waiting += [(column, "", child) for child in first]
            waiting += [(column, "├─", child) for child in reversed(branches)]

    def _continuations(self, response_id: str) -> tuple[Sequence[str], Sequence[str]]:
        """What goes on in the same column, if anything, and the branches.

        That is the oldest continuation, as it is in the store; but what failed leads nowhere.
        """
        found = self._children.get(response_id, [])
        found = sorted(found, key=lambda child: self._responses[child].response.status in _ENDED_BADLY)
        return found[:1], found[1:]


def parents_of(oldest_first: Iterable[StoredResponse]) -> Mapping[str, str]:
    """What each response continues; in a conversation, the last one before it that came to an end."""
    parents: dict[str, str] = {}
    heads: dict[str, str] = {}
    for stored in oldest_first:
        parent = stored.parent
        if stored.conversation is not None:
            parent = parent or heads.get(stored.conversation)
            if stored.response.status not in _ENDED_BADLY:
                heads[stored.conversation] = stored.response.id
        if parent is not None:
            parents[stored.response.id] = parent
    return parents
