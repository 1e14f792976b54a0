"""``GET /`` and ``GET /assets/{name}``: the files of the page, with the headers that confine it."""

from typing import ClassVar

from antiphon.errors import NotFound
from antiphon.server.error_shapes import Header
from antiphon.server.exchange import Exchange
from antiphon.server.page.bundle import Bundle, PageFile
from antiphon.server.routing import Route

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
"""No script, style, connection or image from elsewhere, and none that a document contains."""
_CONFINED: tuple[Header, ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"accept-encoding"),
)
_REVALIDATED: Header = (b"cache-control", b"no-cache")
_IMMUTABLE: Header = (b"cache-control", b"public, max-age=31536000, immutable")
"""The names of assets contain hashes of their content."""


class PageRoutes:
    """Serves the page to browsers. It contains no data, so it needs no key."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    async def index(self, exchange: Exchange) -> None:
        """The document; the router of the page uses the fragment of its address."""
        await _send(exchange, self._bundle.index, _REVALIDATED)

    async def asset(self, exchange: Exchange, name: str) -> None:
        """A script, a style sheet or a picture."""
        found = self._bundle.assets.get(name)
        if found is None:
            raise NotFound(f"The page has no file '{name[:100]}'. Reload the page.", code="unknown_url")
        await _send(exchange, found, _IMMUTABLE)

    ROUTES: ClassVar = (
        Route("GET /", index, keyless=True),
        Route("GET /assets/{name}", asset, keyless=True),
    )


async def _send(exchange: Exchange, file: PageFile, caching: Header) -> None:
    encoded = file.best(", ".join(exchange.header_values("accept-encoding")))
    headers = (*_CONFINED, caching)
    if encoded.encoding is not None:
        headers = (*headers, (b"content-encoding", encoded.encoding.encode()))
    await exchange.send_media(encoded.body, file.media_type, headers=headers)
