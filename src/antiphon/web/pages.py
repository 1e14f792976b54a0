"""`WebPageReader`: opens pages of the web as text.

The addresses come from a model that reads untrusted text, so every hop passes the egress policy and the
rules of the request, and the text is read in a child process with limits.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urldefrag
from weakref import WeakValueDictionary

import msgspec

from antiphon.documents.document import Unreadable
from antiphon.documents.reader import DocumentReader
from antiphon.documents.reading import ReadFault
from antiphon.errors import BackendError, BackendRefused, InvalidRequest, SettingsError
from antiphon.http.download import Downloader, Retrieved, name_in_url
from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.web.page_text import PageJob, PageText
from antiphon.web.port import (
    MAX_TITLE_CHARACTERS,
    MAX_URL_CHARACTERS,
    DomainRules,
    WebPage,
    host_of,
    is_permitted,
)

READ_PAGE = "antiphon.web.page_text:read_page_encoded"
MAX_PAGES_AT_ONCE = 4
"""Of one tenant; others wait. A page is in memory while it is read."""
MAX_ALL_PAGES_AT_ONCE = 16
CACHE_SECONDS = 600.0
MAX_CACHED_CHARACTERS = 16_000_000
MAX_CACHED_PAGES = 200
MAX_HOST_CHARACTERS = 253
_UNREAD_TYPES = ("image/", "video/", "audio/", "font/", "model/")
_RESULTS = msgspec.msgpack.Decoder(PageText | ReadFault)


class _Cached(NamedTuple):
    page: WebPage
    valid_until: float


class WebPageReader:
    """Implements `WebPages`. Remembers pages for a while: a model opens one part of a page after another."""

    def __init__(self, downloader: Downloader, reader: DocumentReader) -> None:
        self._downloader = downloader
        self._reader = reader
        self._cache: OrderedDict[tuple[str, str], _Cached] = OrderedDict()
        self._cached_characters = 0
        self._of_tenant: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._of_all = asyncio.Semaphore(MAX_ALL_PAGES_AT_ONCE)

    async def open(self, tenant: str, url: str, rules: DomainRules) -> WebPage:
        with _explained(url):
            url = _complete(url)
            cached = self._cached(tenant, url)
            for visited in () if cached is None else cached.urls:
                _PageRules(rules).check_url(visited)
        if cached is not None:
            return cached
        async with self._of_tenant.setdefault(tenant, asyncio.Semaphore(MAX_PAGES_AT_ONCE)), self._of_all:
            with _explained(url):
                found = await self._downloader.retrieve(url, _PageRules(rules))
            page = await self._read(tenant, found)
        self._remember((tenant, url), _Cached(page, asyncio.get_running_loop().time() + CACHE_SECONDS))
        return page

    def _cached(self, tenant: str, url: str) -> WebPage | None:
        cached = self._cache.get((tenant, url))
        if cached is None or cached.valid_until <= asyncio.get_running_loop().time():
            return None
        self._cache.move_to_end((tenant, url))
        return cached.page

    async def _read(self, tenant: str, found: Retrieved) -> WebPage:
        url = urldefrag(found.urls[-1]).url
        job = PageJob(found.data, name_in_url(url), _charset(found.content_type))
        try:
            result = _RESULTS.decode(await self._reader.run(tenant, READ_PAGE, msgspec.msgpack.encode(job)))
        except Unreadable as error:
            raise _unreadable(url, error.message) from None
        if isinstance(result, ReadFault):
            raise _unreadable(url, result.message)
        title = KNOWN_SECRETS.scrub(result.title)[:MAX_TITLE_CHARACTERS] or host_of(url)
        return WebPage((*found.urls[:-1], url), title, KNOWN_SECRETS.scrub(result.text), result.is_cut)

    def _remember(self, key: tuple[str, str], cached: _Cached) -> None:
        if (known := self._cache.pop(key, None)) is not None:
            self._cached_characters -= len(known.page.text)
        self._cache[key] = cached
        self._cached_characters += len(cached.page.text)
        while self._cached_characters > MAX_CACHED_CHARACTERS or len(self._cache) > MAX_CACHED_PAGES:
            self._cached_characters -= len(self._cache.popitem(last=False)[1].page.text)


class _PageRules:
    """The rules of one request as rules of a download."""

    def __init__(self, rules: DomainRules) -> None:
        self._rules = rules

    def check_url(self, url: str) -> None:
        """Raise for an address that the filters do not permit, or that repeats a secret of this server."""
        if len(url) > MAX_URL_CHARACTERS or not url.isprintable() or KNOWN_SECRETS.are_in(url):
            raise BackendRefused("its address is too long, or cannot be written.", status=400)
        if host_of(url) and not is_permitted(url, self._rules):
            message = f"pages of '{host_of(url)}' are not permitted by the filters of this search."
            raise BackendRefused(message, status=403)

    def check_type(self, content_type: str) -> None:
        """Raise for what has no text."""
        if content_type.startswith(_UNREAD_TYPES):
            kind = content_type.partition(";")[0].strip()
            raise BackendRefused(f"it is of the type '{kind[:100]}', which has no text.", status=415)


@contextmanager
def _explained(url: str) -> Generator[None, None, None]:
    """Errors of addresses and downloads as errors for the model."""
    try:
        yield
    except (SettingsError, ValueError):  # the parser of URLs raises the latter
        message = "The address must begin with 'https://' or 'http://', and have no user and password."
        raise InvalidRequest(message) from None
    except BackendError as error:
        raise InvalidRequest(f"The page at '{_host(url)}' cannot be opened: {error.message}") from None


def _complete(url: str) -> str:
    """The address without a fragment. Models leave out the scheme."""
    text = url.strip()
    return urldefrag(text if "://" in text else f"https://{text}").url


def _charset(content_type: str) -> str:
    """The encoding that a header names, if it names one."""
    _, found, after = content_type.partition("charset=")
    return after.partition(";")[0].strip().strip("\"'") if found else ""


def _unreadable(url: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"The page at '{_host(url)}' cannot be read: {why}")


def _host(url: str) -> str:
    """The host in errors. They are logged, and the rest of an address may be content of the conversation."""
    return KNOWN_SECRETS.scrub(host_of(url))[:MAX_HOST_CHARACTERS]
