"""The port of search engines, as the tool `web_search` uses it."""

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

MAX_URL_CHARACTERS = 2_048
"""Results with a longer address are left out: citations repeat it."""
MAX_TITLE_CHARACTERS = 300
MAX_TEXT_CHARACTERS = 8_000
"""Of one result; the rest is left out."""


class WebLocation(Struct, frozen=True, kw_only=True):
    """Where the user is; empty members are unknown."""

    city: str = ""
    country: str = ""
    """Two letters."""
    region: str = ""
    timezone: str = ""


class DomainRules(Struct, frozen=True, kw_only=True):
    """Domains with their subdomains. Without allowed ones, all are allowed that are not blocked."""

    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()


class WebQuery(DomainRules, frozen=True, kw_only=True):
    """What to search for. Engines without filters of domains may return others."""

    text: str
    limit: int
    location: WebLocation = WebLocation()


class WebResult(Struct, frozen=True):
    """A page that was found, and an excerpt of it."""

    url: str
    title: str
    text: str


class WebPage(Struct, frozen=True):
    """A page that was opened, as text."""

    urls: tuple[str, ...]
    """Its address, after those that were redirected to it."""
    title: str
    text: str
    is_cut: bool = False
    """Whether the end is left out, because the page is too long."""

    @property
    def url(self) -> str:
        return self.urls[-1]


class SearchEngine(Protocol):
    """A search engine."""

    async def search(self, query: WebQuery) -> Sequence[WebResult]:
        """The best results first, at most `query.limit`. Raises `BackendError`."""
        ...

    def close(self) -> None:
        """Abort all connections."""
        ...


class WebPages(Protocol):
    """Opens pages of the web on behalf of tenants."""

    async def open(self, tenant: str, url: str, rules: DomainRules) -> WebPage:
        """The page, from memory if it was opened a short time ago. Raises `InvalidRequest` with the reason
        for a page that cannot be opened or that the rules do not permit, also after a redirect."""
        ...


def host_of(url: str) -> str:
    """The host of an address; empty if it is not a web address."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").lower()
    except ValueError:
        return ""
    return host if parts.scheme in ("http", "https") else ""


def is_within(host: str, domains: Sequence[str]) -> bool:
    """Whether the host is one of the domains, or below one of them."""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def is_permitted(url: str, rules: DomainRules) -> bool:
    """Whether the rules permit the address."""
    host = host_of(url)
    if not host or is_within(host, rules.blocked_domains):
        return False
    return not rules.allowed_domains or is_within(host, rules.allowed_domains)
