"""Downloads what requests and models name by a URL. Every hop passes the egress policy."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote, urljoin, urlsplit

from antiphon.errors import BackendError, BackendRefused, BackendTimeout, InvalidRequest, SettingsError
from antiphon.http.client import Accept, HttpClient
from antiphon.http.egress import NOT_PERMITTED, EgressPolicy
from antiphon.http.exchange import Exchange
from antiphon.http.target import Deadlines, Target

MAX_REDIRECTS = 5
MAX_URL_CHARS = 8192
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPTED = Accept((200, *_REDIRECTS))
_SAFE = "/:?#[]@!$&'()*+,;=%-._~"


class Downloaded(NamedTuple):
    """A file, and its name by the last part of its URL; the name may be empty."""

    data: bytes
    name: str


class Retrieved(NamedTuple):
    """What was found behind a URL."""

    urls: tuple[str, ...]
    """The URL that was asked for, and those that it was redirected to; the last one has the content."""
    data: bytes
    content_type: str
    """The header, in lower case; it may be empty."""


class DownloadRules(Protocol):
    """What else may not be downloaded, beyond the egress policy. The methods raise `BackendError`."""

    def check_url(self, url: str) -> None:
        """Check a URL before it is asked for: the first one, or that of a redirect."""
        ...

    def check_type(self, content_type: str) -> None:
        """Check the header of an answer before its body is read."""
        ...


class _NoRules:
    def check_url(self, url: str) -> None:
        pass

    def check_type(self, content_type: str) -> None:
        pass


NO_RULES: DownloadRules = _NoRules()


@dataclass(frozen=True, slots=True)
class Downloader:
    """Downloads by GET, without cookies and credentials."""

    egress: EgressPolicy
    max_bytes: int
    seconds: float

    async def download(self, url: str, param: str) -> Downloaded:
        """The file at a URL. Raises `InvalidRequest` with this parameter if it cannot be had."""
        try:
            found = await self.retrieve(url)
        except (SettingsError, ValueError):  # the parser of URLs raises the latter
            message = "A file URL must begin with 'https://' or 'http://', and have no user and password."
            raise InvalidRequest(message, param=param) from None
        except BackendError as error:
            if error.code == NOT_PERMITTED:
                raise InvalidRequest(error.message, param=param, code=NOT_PERMITTED) from None
            host = urlsplit(url).hostname or ""
            message = f"The file cannot be downloaded from '{host}': {error.message}"
            raise InvalidRequest(message, param=param) from None
        return Downloaded(found.data, name_in_url(found.urls[-1]))

    async def retrieve(self, url: str, rules: DownloadRules = NO_RULES) -> Retrieved:
        """The content behind a URL. Raises `BackendError`; `SettingsError` or `ValueError` for a URL that
        cannot be used."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self._follow(url, rules)
        except TimeoutError:
            raise BackendTimeout(f"it takes more than {self.seconds:g} s.") from None

    async def _follow(self, url: str, rules: DownloadRules) -> Retrieved:
        urls: list[str] = []
        for _ in range(MAX_REDIRECTS + 1):
            if len(url) > MAX_URL_CHARS:
                raise SettingsError("The URL is too long.")
            rules.check_url(url)
            urls.append(url)
            answer = await self._get(url, rules)
            if answer.status not in _REDIRECTS:
                return Retrieved(tuple(urls), answer.data, answer.content_type)
            url = urljoin(url, answer.location)
        raise BackendError(f"it is redirected more than {MAX_REDIRECTS} times.")

    async def _get(self, url: str, rules: DownloadRules) -> "_Answer":
        parts = urlsplit(url)
        target = Target(
            name=parts.hostname or "",
            base_url=f"{parts.scheme}://{parts.netloc}",
            deadlines=Deadlines(first_byte=self.seconds, between=self.seconds, answer=self.seconds),
            retries=0,
            max_body_bytes=self.max_bytes,
            noun="server",
        )
        client = HttpClient(target, _answered_with, egress=self.egress)
        path = quote(parts.path or "/", safe=_SAFE) + (
            f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
        )
        exchange = Exchange(client, client.request("GET", path, accept=_ACCEPTED), first_byte=self.seconds)
        try:
            while not await exchange.opened():
                pass
            if exchange.status in _REDIRECTS:
                return _Answer(exchange.status, location=exchange.headers.get("location", ""))
            content_type = exchange.headers.get("content-type", "").lower()
            rules.check_type(content_type)
            while (body := await exchange.body()) is None:
                pass
            return _Answer(exchange.status, body, content_type)
        finally:
            exchange.close(complete=False)
            client.close()


class _Answer(NamedTuple):
    """The answer of one hop."""

    status: int
    data: bytes = b""
    content_type: str = ""
    location: str = ""


def name_in_url(url: str) -> str:
    """The last part of the path of a URL; it may be empty."""
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _answered_with(status: int, headers: Mapping[str, str], body: bytes) -> BackendError:
    return BackendRefused(f"it answered with status {status}.", status=status)
