"""Search engines over HTTP: SearXNG, Brave and Tavily. Each has a dialect; the client is the same."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from antiphon.errors import BackendBroken, BackendTimeout
from antiphon.http.client import JSON, Accept, HttpClient, HttpRequest
from antiphon.http.exchange import fetch
from antiphon.http.target import Deadlines, Target
from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.web.port import (
    MAX_TEXT_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    MAX_URL_CHARACTERS,
    WebQuery,
    WebResult,
    is_permitted,
)

EngineKind = Literal["searxng", "brave", "tavily"]
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_ENGINE_RESULTS = 20
"""Brave and Tavily reject requests for more."""
MAX_BRAVE_QUERY_CHARACTERS = 400
MAX_SITE_OPERATORS = 8
"""Domains that are written into a query, for engines that have no other filter."""
_ONLY_JSON = Accept((200,), (JSON,))


class _Row(Struct):
    url: str = ""
    title: str | None = None
    content: str | None = None
    description: str | None = None
    extra_snippets: list[str] | None = None


class _Rows(Struct):
    results: list[_Row] = []


class _BraveAnswer(Struct):
    web: _Rows | None = None


_ROWS = msgspec.json.Decoder(_Rows)
_BRAVE = msgspec.json.Decoder(_BraveAnswer)


class Dialect(Protocol):
    """The wire format of an engine."""

    def request(self, client: HttpClient, query: WebQuery) -> HttpRequest:
        """The request of a search."""
        ...

    def rows(self, body: bytes) -> Sequence[_Row]:
        """The results in an answer. Raises `msgspec.MsgspecError` or `UnicodeDecodeError`."""
        ...


class SearxngDialect:
    """SearXNG, whose operator has enabled the format `json`."""

    def request(self, client: HttpClient, query: WebQuery) -> HttpRequest:
        params = {"q": _with_sites(query), "format": "json"}
        return client.request("GET", f"search?{urlencode(params)}", accept=_ONLY_JSON)

    def rows(self, body: bytes) -> Sequence[_Row]:
        return _ROWS.decode(body).results


class BraveDialect:
    """Brave's web search. The location is sent in headers."""

    def request(self, client: HttpClient, query: WebQuery) -> HttpRequest:
        where = query.location
        params: dict[str, str | int] = {
            "q": _with_sites(query)[:MAX_BRAVE_QUERY_CHARACTERS],
            "count": min(query.limit, MAX_ENGINE_RESULTS),
            "text_decorations": "false",
            "extra_snippets": "true",
        }
        if where.country:
            params["country"] = where.country.upper()
        given = {
            "x-loc-city": where.city,
            "x-loc-country": where.country.upper(),
            "x-loc-state-name": where.region,
            "x-loc-timezone": where.timezone,
        }
        headers = {name: value for name, value in given.items() if value and value.isascii()}
        return client.request("GET", f"web/search?{urlencode(params)}", headers=headers, accept=_ONLY_JSON)

    def rows(self, body: bytes) -> Sequence[_Row]:
        found = _BRAVE.decode(body).web
        return () if found is None else found.results


class TavilyDialect:
    """Tavily. It filters domains itself; it has no place for a location with a two-letter country."""

    def request(self, client: HttpClient, query: WebQuery) -> HttpRequest:
        body = {
            "query": query.text,
            "max_results": min(query.limit, MAX_ENGINE_RESULTS),
            "include_domains": query.allowed_domains,
            "exclude_domains": query.blocked_domains,
        }
        headers = {"content-type": JSON}
        return client.request("POST", "search", msgspec.json.encode(body), headers=headers, accept=_ONLY_JSON)

    def rows(self, body: bytes) -> Sequence[_Row]:
        return _ROWS.decode(body).results


_DIALECTS: Mapping[EngineKind, Dialect] = {
    "searxng": SearxngDialect(),
    "brave": BraveDialect(),
    "tavily": TavilyDialect(),
}
DEFAULT_URLS: Mapping[EngineKind, str] = {
    "brave": "https://api.search.brave.com/res/v1",
    "tavily": "https://api.tavily.com",
}
_KEY_HEADERS: Mapping[EngineKind, tuple[str, str]] = {
    "brave": ("x-subscription-token", ""),
    "tavily": ("authorization", "Bearer "),
    "searxng": ("authorization", "Bearer "),
}


@dataclass(frozen=True, slots=True)
class HttpEngine:
    """An engine that the operator has configured."""

    client: HttpClient
    dialect: Dialect
    seconds: float

    async def search(self, query: WebQuery) -> Sequence[WebResult]:
        request = self.dialect.request(self.client, query)
        name = self.client.target.described
        try:
            async with asyncio.timeout(self.seconds):
                body = await fetch(self.client, request, self.seconds)
        except TimeoutError:
            raise BackendTimeout(f"The {name} did not answer in {self.seconds:g} s.") from None
        try:
            rows = self.dialect.rows(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise BackendBroken(f"The {name} sent an answer that cannot be read.") from None
        found = (_result(row) for row in rows[: 10 * MAX_ENGINE_RESULTS])
        return [result for result in found if _is_usable(result, query)][: query.limit]

    def close(self) -> None:
        self.client.close()


def make_engine(kind: EngineKind, url: str, key: str, seconds: float) -> HttpEngine:
    """An engine of this kind. Raises `SettingsError` for an invalid address."""
    name, prefix = _KEY_HEADERS[kind]
    target = Target(
        name=kind,
        base_url=url,
        headers={name: f"{prefix}{key}"} if key else {},
        secrets=(key,) if key else (),
        deadlines=Deadlines(first_byte=seconds, between=seconds, answer=seconds, total=seconds),
        retries=0,
        max_body_bytes=MAX_ANSWER_BYTES,
        noun="search engine",
    )
    return HttpEngine(HttpClient(target), _DIALECTS[kind], seconds)


def _with_sites(query: WebQuery) -> str:
    """The query with operators for the domains, which most engines know."""
    allowed = " OR ".join(f"site:{domain}" for domain in query.allowed_domains[:MAX_SITE_OPERATORS])
    blocked = (f"-site:{domain}" for domain in query.blocked_domains[:MAX_SITE_OPERATORS])
    complete = len(query.allowed_domains) <= MAX_SITE_OPERATORS
    return " ".join(filter(None, [query.text, allowed if complete else "", *blocked]))


def _result(row: _Row) -> WebResult:
    texts = (row.content, row.description, *(row.extra_snippets or ()))
    text = "\n".join(part.strip() for part in texts if part and part.strip())
    title = " ".join((row.title or "").split())
    return WebResult(
        row.url,
        KNOWN_SECRETS.scrub(title)[:MAX_TITLE_CHARACTERS],
        KNOWN_SECRETS.scrub(text)[:MAX_TEXT_CHARACTERS],
    )


def _is_usable(result: WebResult, query: WebQuery) -> bool:
    """Whether the address is permitted, and can be written into an answer."""
    url = result.url
    if len(url) > MAX_URL_CHARACTERS or not url.isprintable() or KNOWN_SECRETS.are_in(url):
        return False
    return is_permitted(url, query)
