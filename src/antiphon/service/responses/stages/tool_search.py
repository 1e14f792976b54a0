"""The server's own search for deferred tools: the model continues with the found tools."""

from collections.abc import AsyncGenerator, Sequence

from msgspec.structs import replace

from antiphon.protocol.downgrade import Downgrade
from antiphon.service.responses.stages.base import Cut, RoundPlan
from antiphon.turn.chunks import Chunk, UsageSpent
from antiphon.turn.context import TurnRequest
from antiphon.turn.server_search import ServerSearch, searches_here, server_search

MAX_SEARCHES = 8
"""Rounds in which a model may search before it has to answer with the tools it has."""


class ToolSearchStage:
    """Takes the calls of the search out of the turn; the results take their place at its end."""

    cut: Cut | None = None

    def __init__(self, search: ServerSearch, plan: RoundPlan) -> None:
        self._search = search
        self._plan = plan
        self.next: RoundPlan | None = None

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Chunks of other calls pass on."""
        return self._search.feed(chunks)

    async def end(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """If the model has only searched, it continues in another round."""
        search = self._search
        if search.found:
            self.next = replace(self._plan, searches=self._plan.searches + 1)
            spent = [] if search.usage is None else [UsageSpent(search.usage)]
            yield [*search.found, *spent]


def tool_search_stage(turn: TurnRequest, plan: RoundPlan) -> ToolSearchStage | None:
    """None if the turn has no search of the server's own."""
    search = server_search(turn)
    return None if search is None else ToolSearchStage(search, plan)


def without_spent_search(turn: TurnRequest, searches: int) -> TurnRequest:
    """The turn without the search tool, once the model has searched often enough."""
    if searches < MAX_SEARCHES:
        return turn
    tools = tuple(tool for tool in turn.tools if not searches_here(tool))
    text = f"tool_search: after {searches} searches the model continues with the found tools"
    limit = Downgrade("search_limit", text, ("tools",))
    return replace(turn, tools=tools, downgrades=(*turn.downgrades, limit))
