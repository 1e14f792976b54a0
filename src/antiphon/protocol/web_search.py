"""The tool `web_search` on the wire: its declaration, parsed with the path of every member."""

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse import convert

WEB_SEARCH_TYPES = frozenset(
    {
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
MAX_DOMAINS = 100
_DOMAIN = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")

Domains = Annotated[list[str], Meta(max_length=MAX_DOMAINS)]
ShortText = Annotated[str, Meta(max_length=200)]


class WebFilters(Struct, frozen=True):
    """Domains without a scheme; their subdomains are included."""

    allowed_domains: Domains | None = None
    blocked_domains: Domains | None = None


class UserLocation(Struct, frozen=True):
    """Where the user is, roughly."""

    city: ShortText | None = None
    country: Annotated[str, Meta(pattern="^[A-Za-z]{2}$")] | None = None
    region: ShortText | None = None
    timezone: ShortText | None = None


class WebSearchTool(Struct, frozen=True, kw_only=True):
    """A declared `web_search` of any version."""

    external_web_access: bool | None = None
    filters: WebFilters | None = None
    search_context_size: Literal["low", "medium", "high"] | None = None
    user_location: UserLocation | None = None


def parse_web_search(body: JsonObject, path: str) -> WebSearchTool:
    """Parse a declaration. Raises `InvalidRequest` with the path of the member."""
    tool = convert(body, WebSearchTool, path)
    filters = tool.filters or WebFilters()
    for name, domains in (
        ("allowed_domains", filters.allowed_domains),
        ("blocked_domains", filters.blocked_domains),
    ):
        for index, domain in enumerate(domains or ()):
            if not is_domain(domain):
                where = f"{path}.filters.{name}[{index}]"
                message = (
                    f"Invalid value for '{where}': write a domain without scheme, such as 'example.com'."
                )
                raise InvalidRequest(message, param=where, code="invalid_value")
    return tool


def is_domain(text: str) -> bool:
    """Whether the text is the name of a host, without scheme, port and path."""
    return bool(_DOMAIN.fullmatch(ascii_domain(text)))


def ascii_domain(text: str) -> str:
    """A domain as it is written in addresses; empty if it has no such form."""
    try:
        return text.strip().rstrip(".").encode("idna").decode().lower()
    except UnicodeError:
        return ""
