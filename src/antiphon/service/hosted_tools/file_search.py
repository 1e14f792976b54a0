"""`file_search`: the model searches vector stores, and cites the passages that it is shown."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.attribute_filters import parse_filter
from antiphon.protocol.content import InputText, JsonObject
from antiphon.protocol.events import FileSearchCallSearching
from antiphon.protocol.file_search import DEFAULT_RESULTS, FILE_SEARCH, FileSearchTool, parse_file_search
from antiphon.protocol.items import Item, Message
from antiphon.protocol.tool_items import FileSearchCall
from antiphon.protocol.tools import HostedTool
from antiphon.service.hosted_tools.base import OpenedTool, ToolScope
from antiphon.service.vector_stores.passages import HybridWeights, Passage, PassageQuery, PassageSearch
from antiphon.turn.chunks import Chunk, HostedItemBegun, HostedItemDone, HostedItemStep
from antiphon.turn.function_forms.file_searches import BYTES_PER_TOKEN, ERROR, SOURCE
from antiphon.turn.function_forms.reading import read_object
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.tools import HostedForm

DEFAULT_SEARCH_TOKENS = 16_000
MAX_QUERIES = 8
MAX_QUERY_CHARACTERS = 4_000
SCORE_DIGITS = 4
INCLUDE_RESULTS = "file_search_call.results"

_DESCRIPTION = (
    "Search the user's files. The answer has the passages that fit best, each with a number. Use it for "
    "every question that the files may answer, before you answer."
)
_REQUESTS = ("How much is it?", "Is that allowed?", "When does it begin, and who decides?")
"""Requests that need a search. The embedded models are shown them; `python -m bench.cited_answers` counts for
which questions they search."""
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "queries": {
            "type": "array",
            "items": {"type": "string", "maxLength": 300},
            "minItems": 1,
            "maxItems": 4,
            "description": "What to search for: the user's question in their own words first, then one to "
            "three variants with other words.",
        }
    },
    "required": ["queries"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class FileSearch:
    """Serves `file_search`. `max_tokens`: of the results of one search that the model is shown."""

    passages: PassageSearch
    max_tokens: int = DEFAULT_SEARCH_TOKENS
    types: frozenset[str] = frozenset({FILE_SEARCH})

    def owns(self, declared: HostedTool) -> bool:
        """Its stores have to be looked for."""
        return True

    async def open(self, declared: HostedTool, key: str, scope: ToolScope, path: str) -> OpenedTool:
        """Check that the stores exist and have not expired."""
        tool = parse_file_search(declared.body, path)
        try:
            await self.passages.check(scope.tenant, tool.vector_store_ids)
        except NotFound as error:
            raise NotFound(error.message, param=f"{path}.vector_store_ids", code=error.code) from None
        except InvalidRequest as error:
            raise InvalidRequest(error.message, param=f"{path}.vector_store_ids", code=error.code) from None
        form = HostedForm(
            key=key,
            declared=declared,
            name=FILE_SEARCH,
            description=_DESCRIPTION,
            parameters=_PARAMETERS,
            requests=_REQUESTS,
        )
        return OpenedTool([FileSearchFunction(form, self, tool, scope)])


@dataclass(frozen=True, slots=True)
class FileSearchFunction:
    """The searches of one response in the stores of one declaration."""

    form: HostedForm
    served: FileSearch
    tool: FileSearchTool
    scope: ToolScope
    repeatable: bool = True

    def approval_request(self, call: HostedCall) -> None:
        """A search needs no approval."""

    async def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Search: `searching` is emitted before, the results after. What finds nothing is searched for again
        in the words of the user: queries of small models may make no sense."""
        index, queries = call.index, read_queries(call.arguments)
        yield [
            HostedItemBegun(index, FileSearchCall(results=None)),
            HostedItemStep(index, FileSearchCallSearching),
        ]
        if not queries:
            raise InvalidRequest("'queries' must be a list with at least one text.")
        found = await self._search(queries)
        own_words = last_user_text(self.scope.items)
        if not found and own_words and own_words not in queries:
            queries = (*queries, own_words)
            found = await self._search((own_words,))
        results = [_result(passage) for passage in found]
        item = FileSearchCall(
            status="completed",
            queries=list(queries),
            results=results if INCLUDE_RESULTS in self.scope.include else None,
        )
        private: JsonObject = {"results": within_budget(results, self.served.max_tokens)}
        yield [HostedItemDone(item, private, index)]

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """A search that failed; the model is shown the reason, and can answer without it."""
        item = FileSearchCall(status="failed", queries=list(read_queries(call.arguments)), results=None)
        return HostedItemDone(item, {"results": [{ERROR: reason}]}, call.index)

    def without_model(self, items: Sequence[Item]) -> str | None:
        """Search for the last text of the user."""
        text = last_user_text(items)
        return msgspec.json.encode({"queries": [text]}).decode() if text else None

    async def _search(self, queries: tuple[str, ...]) -> Sequence[Passage]:
        query = self._query(queries)
        return await self.served.passages.search(self.scope.tenant, self.tool.vector_store_ids, query)

    def _query(self, queries: tuple[str, ...]) -> PassageQuery:
        tool, ranking = self.tool, self.tool.ranking_options
        hybrid = None if ranking is None else ranking.hybrid_search
        return PassageQuery(
            queries=queries,
            filter=parse_filter(tool.filters),
            limit=tool.max_num_results or DEFAULT_RESULTS,
            ranker="auto" if ranking is None else ranking.ranker,
            score_threshold=0.0 if ranking is None else ranking.score_threshold,
            weights=None if hybrid is None else HybridWeights(hybrid.embedding_weight, hybrid.text_weight),
        )


def read_queries(arguments: str) -> tuple[str, ...]:
    """The queries of a call; near misses of the schema are accepted."""
    body, _ = read_object(arguments)
    given = body.get("queries", body.get("query", body.get("q")))
    if given is None and not body and arguments.strip()[:1] not in ("", "{", "[", '"'):
        given = arguments
    listed = cast("list[object]", given) if isinstance(given, list) else [given]
    texts = (text.strip()[:MAX_QUERY_CHARACTERS] for text in listed if isinstance(text, str))
    return tuple(dict.fromkeys(text for text in texts if text))[:MAX_QUERIES]


def last_user_text(items: Sequence[Item]) -> str:
    """The last text of the user, short enough for a query."""
    for item in reversed(items):
        if isinstance(item, Message) and item.role == "user":
            content = item.content
            parts = (
                [content]
                if isinstance(content, str)
                else [part.text for part in content if isinstance(part, InputText)]
            )
            if text := "\n".join(parts).strip():
                return text[:MAX_QUERY_CHARACTERS]
    return ""


def within_budget(results: Sequence[JsonObject], max_tokens: int) -> list[JsonObject]:
    """The best results that fit; the first one that does not is cut."""
    room = max_tokens * BYTES_PER_TOKEN
    shown: list[JsonObject] = []
    for result in results:
        text = str(result["text"]).encode()
        if len(text) > room:
            if room > 0:
                shown.append({**result, "text": text[:room].decode("utf-8", "ignore")})
            break
        room -= len(text)
        shown.append(result)
    return shown


def _result(passage: Passage) -> JsonObject:
    return {
        "file_id": passage.file_id,
        "filename": passage.filename,
        "score": round(passage.score, SCORE_DIGITS),
        "text": passage.text,
        "attributes": dict(passage.attributes),
        SOURCE: {
            "vector_store_id": passage.store_id,
            "chunk": passage.ordinal,
            "label": passage.label,
            "score": round(passage.score, SCORE_DIGITS),
        },
    }
