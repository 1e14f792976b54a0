"""The server's own search for deferred tools. Sans-IO.

The model's calls of the search are removed from the chunks, and their results are emitted instead. The model
continues with them in another round, unless it has also called tools of the client: then the response ends.
"""

from collections.abc import Sequence

from antiphon.protocol.response import Usage
from antiphon.protocol.tools import ToolSearchTool
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ToolsFound,
    UsageReported,
)
from antiphon.turn.context import TurnRequest, TurnTool
from antiphon.turn.deferred_servers import search_result
from antiphon.turn.function_forms.reading import read_search
from antiphon.turn.tool_search import search_limit, search_tools


class ServerSearch:
    """Removes the searches of one turn and runs them."""

    def __init__(self, name: str, turn: TurnRequest) -> None:
        self._name = name
        self._deferred = turn.deferred
        self._queries: dict[int, list[str]] = {}
        self._others = False
        self.found: list[ToolsFound] = []
        """The results to emit in place of the calls, if the model has called no other tool."""
        self.usage: Usage | None = None

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks that pass on."""
        if not self._queries and not any(isinstance(chunk, CallStarted) for chunk in chunks):
            return chunks
        return [left for chunk in chunks for left in self._take(chunk)]

    def _take(self, chunk: Chunk) -> Sequence[Chunk]:
        match chunk:
            case CallStarted() if chunk.name == self._name:
                self._queries[chunk.index] = []
            case CallStarted():
                self._others = True
                self._queries.pop(chunk.index, None)
                return [chunk]
            case CallDelta() if chunk.index in self._queries:
                self._queries[chunk.index].append(chunk.arguments)
            case CallFinished() if chunk.index in self._queries:
                pass
            case UsageReported() if self._queries and not self._others:
                self.usage = chunk.usage
            case Finished(reason="stop" | "tool_calls") if self._queries:
                found = [self._searched("".join(pieces)) for pieces in self._queries.values()]
                if self._others:
                    return [*found, chunk]
                self.found = found
            case Finished() | Failed():
                return [*([UsageReported(self.usage)] if self.usage else []), chunk]
            case _:
                return [chunk]
        return []

    def _searched(self, arguments: str) -> ToolsFound:
        asked = read_search(arguments).body
        query = asked.get("query")
        sought = query if isinstance(query, str) else arguments
        tools = search_tools(sought, self._deferred, search_limit(asked))
        return ToolsFound(asked, tuple(map(search_result, tools)))


def server_search(turn: TurnRequest) -> ServerSearch | None:
    """The search of this turn; None if the server searches nothing."""
    return next((ServerSearch(tool.name, turn) for tool in turn.tools if searches_here(tool)), None)


def searches_here(tool: TurnTool) -> bool:
    """Whether the tool is the server's own search."""
    return isinstance(tool.declared, ToolSearchTool) and not tool.declared.by_client
