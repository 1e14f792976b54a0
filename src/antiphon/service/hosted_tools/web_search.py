"""`web_search`: the model searches the web, opens pages, and cites those that it is shown."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import msgspec

from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import WebSearchCallSearching
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.protocol.tools import HostedTool
from antiphon.protocol.web_search import (
    WEB_SEARCH_TYPES,
    UserLocation,
    WebFilters,
    WebSearchTool,
    ascii_domain,
    parse_web_search,
)
from antiphon.service.hosted_tools.base import OpenedTool, ToolScope
from antiphon.service.hosted_tools.file_search import (
    DEFAULT_SEARCH_TOKENS,
    last_user_text,
    read_queries,
    within_budget,
)
from antiphon.service.hosted_tools.web_pages import (
    FIND_PARAMETERS,
    INCLUDE_RESULTS,
    OPEN_PARAMETERS,
    WebPageFunction,
)
from antiphon.turn.chunks import Chunk, HostedItemBegun, HostedItemDone, HostedItemStep
from antiphon.turn.function_forms.file_searches import ERROR, SOURCE
from antiphon.turn.function_forms.web_searches import FIND_IN_PAGE, NOTE, OPEN_PAGE, SEARCH
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.tools import HostedForm
from antiphon.web.port import DomainRules, SearchEngine, WebLocation, WebPages, WebQuery, WebResult

INCLUDE_SOURCES = "web_search_call.action.sources"
MAX_QUERIES = 4
MAX_QUERY_CHARACTERS = 400
RESULTS_OF_SIZE = {"low": 4, "medium": 8, "high": 16}
TOKENS_DIVISOR_OF_SIZE = {"low": 4, "medium": 2, "high": 1}
"""How much of the budget of a search the results of a context size may have."""

_DESCRIPTION = (
    "Search the web. The answer has the pages that fit best, each with a number and an excerpt. Use it for "
    "everything that is recent, or that you are not sure about."
)
_OPEN_DESCRIPTION = (
    "Open a page of the web and read its text. Use it if the excerpt of a search does not answer the "
    "question, or if the user names an address. A long page has several parts."
)
_FIND_DESCRIPTION = (
    "Find a text in a page of the web, and read what is around it. Use it for long pages instead of reading "
    "all of their parts."
)
_NOTHING = "The search found nothing. Try other words, or say that you have found nothing."
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "queries": {
            "type": "array",
            "items": {"type": "string", "maxLength": 300},
            "minItems": 1,
            "maxItems": MAX_QUERIES,
            "description": "What to search for, as one would type it into a search engine.",
        }
    },
    "required": ["queries"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class WebSearch:
    """Serves `web_search`. `max_tokens`: of the results of one search that the model is shown."""

    engine: SearchEngine
    max_tokens: int = DEFAULT_SEARCH_TOKENS
    pages: WebPages | None = None
    """None: pages are not opened."""
    types: frozenset[str] = WEB_SEARCH_TYPES

    def owns(self, declared: HostedTool) -> bool:
        """The operator has chosen the engine: it searches for every model."""
        return True

    async def open(self, declared: HostedTool, key: str, scope: ToolScope, path: str) -> OpenedTool:
        """Check the declaration."""
        tool = parse_web_search(declared.body, path)

        def form(name: str, description: str, parameters: JsonObject) -> HostedForm:
            return HostedForm(
                key=f"{key}/{name}",
                declared=declared,
                name=name,
                description=description,
                parameters=parameters,
            )

        search = WebSearchFunction(form(SEARCH, _DESCRIPTION, _PARAMETERS), self, tool, scope)
        if self.pages is None or tool.external_web_access is False:
            return OpenedTool([search])
        budget = self.max_tokens // TOKENS_DIVISOR_OF_SIZE[tool.search_context_size or "medium"]
        rules = _rules(tool)
        forms = (
            form(OPEN_PAGE, _OPEN_DESCRIPTION, OPEN_PARAMETERS),
            form(FIND_IN_PAGE, _FIND_DESCRIPTION, FIND_PARAMETERS),
        )
        return OpenedTool(
            [search, *(WebPageFunction(each, self.pages, rules, budget, scope) for each in forms)]
        )


@dataclass(frozen=True, slots=True)
class WebSearchFunction:
    """The searches of one response with the options of one declaration."""

    form: HostedForm
    served: WebSearch
    tool: WebSearchTool
    scope: ToolScope
    repeatable: bool = True

    def approval_request(self, call: HostedCall) -> None:
        """A search needs no approval."""

    async def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Search: `searching` is emitted before, the item after."""
        index, queries = call.index, _queries(call)
        yield [HostedItemBegun(index, WebSearchCall()), HostedItemStep(index, WebSearchCallSearching)]
        if not queries:
            raise InvalidRequest("'queries' must be a list with at least one text.")
        size = self.tool.search_context_size or "medium"
        wanted = [self._query(text, RESULTS_OF_SIZE[size]) for text in queries]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._searched(query)) for query in wanted]
        lists = [task.result() for task in tasks]
        for found in lists:
            if isinstance(found, AntiphonError):
                raise found
        found = _merged(found for found in lists if not isinstance(found, AntiphonError))
        results = [_row(result) for result in found[: RESULTS_OF_SIZE[size]]]
        budget = self.served.max_tokens // TOKENS_DIVISOR_OF_SIZE[size]
        shown = within_budget(results, budget) or [{NOTE: _NOTHING, SOURCE: {"function": SEARCH}}]
        action = _action(queries)
        if INCLUDE_SOURCES in self.scope.include:
            action["sources"] = [{"type": "url", "url": result["url"]} for result in results]
        item = WebSearchCall(status="completed", action=action)
        if INCLUDE_RESULTS in self.scope.include:
            item = msgspec.structs.replace(item, results=results)
        yield [HostedItemDone(item, {"results": shown}, index)]

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """A search that failed; the model is shown the reason, and can answer without it."""
        item = WebSearchCall(status="failed", action=_action(_queries(call)))
        private: JsonObject = {"results": [{ERROR: reason, SOURCE: {"function": SEARCH}}]}
        return HostedItemDone(item, private, call.index)

    def without_model(self, items: Sequence[Item]) -> str | None:
        """Search for the last text of the user."""
        text = last_user_text(items)[:MAX_QUERY_CHARACTERS]
        return msgspec.json.encode({"queries": [text]}).decode() if text else None

    async def _searched(self, query: WebQuery) -> Sequence[WebResult] | AntiphonError:
        """The results, or the error: a group of tasks would wrap it."""
        try:
            return await self.served.engine.search(query)
        except AntiphonError as error:
            return error

    def _query(self, text: str, limit: int) -> WebQuery:
        rules = _rules(self.tool)
        where = self.tool.user_location or UserLocation()
        return WebQuery(
            text=text,
            limit=limit,
            allowed_domains=rules.allowed_domains,
            blocked_domains=rules.blocked_domains,
            location=WebLocation(
                city=where.city or "",
                country=where.country or "",
                region=where.region or "",
                timezone=where.timezone or "",
            ),
        )


def _rules(tool: WebSearchTool) -> DomainRules:
    """The filters of a declaration."""
    filters = tool.filters or WebFilters()
    return DomainRules(
        allowed_domains=tuple(map(ascii_domain, filters.allowed_domains or ())),
        blocked_domains=tuple(map(ascii_domain, filters.blocked_domains or ())),
    )


def _queries(call: HostedCall) -> list[str]:
    return [text[:MAX_QUERY_CHARACTERS] for text in read_queries(call.arguments)[:MAX_QUERIES]]


def _action(queries: Sequence[str]) -> JsonObject:
    return {"type": "search", "query": queries[0] if queries else "", "queries": list(queries)}


def _merged(lists: Iterable[Sequence[WebResult]]) -> list[WebResult]:
    """The results of several queries in turns, each page once."""
    found: dict[str, WebResult] = {}
    for result in chain.from_iterable(zip_longest(*lists)):
        if result is not None:
            found.setdefault(result.url, result)
    return list(found.values())


def _row(result: WebResult) -> JsonObject:
    return {
        "url": result.url,
        "title": result.title,
        "text": result.text,
        SOURCE: {"function": SEARCH},
    }
