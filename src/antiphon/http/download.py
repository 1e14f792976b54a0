"""Downloads files that requests name. Every hop passes the egress policy."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from antiphon.errors import BackendError, BackendRefused, InvalidRequest, SettingsError
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


@dataclass(frozen=True, slots=True)
class Downloader:
    """Downloads by GET, without cookies and credentials."""

    egress: EgressPolicy
    max_bytes: int
    seconds: float

    async def download(self, url: str, param: str) -> Downloaded:
        """The file at a URL. Raises `InvalidRequest` with this parameter if it cannot be had."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self._follow(url)
        except TimeoutError:
            raise _refused(url, f"it takes more than {self.seconds:g} s.", param) from None
        except (SettingsError, ValueError):  # the parser of URLs raises the latter
            message = "A file URL must begin with 'https://' or 'http://', and have no user and password."
            raise InvalidRequest(message, param=param) from None
        except BackendError as error:
            if error.code == NOT_PERMITTED:
                raise InvalidRequest(error.message, param=param, code=NOT_PERMITTED) from None
            raise _refused(url, error.message, param) from None

    async def _follow(self, url: str) -> Downloaded:
        for _ in range(MAX_REDIRECTS + 1):
            if len(url) > MAX_URL_CHARS:
                raise SettingsError("The URL is too long.")
            status, location, data = await self._get(url)
            if status not in _REDIRECTS:
                return Downloaded(data, unquote(urlsplit(url).path.rpartition("/")[2]))
            url = urljoin(url, location)
        raise BackendError(f"it is redirected more than {MAX_REDIRECTS} times.")

    async def _get(self, url: str) -> tuple[int, str, bytes]:
        """Status, location and body of one hop."""
        parts = urlsplit(url)
        target = Target(
            name=parts.hostname or "",
            base_url=f"{parts.scheme}://{parts.netloc}",
            deadlines=Deadlines(first_byte=self.seconds, between=self.seconds, answer=self.seconds),
            retries=0,
            max_body_bytes=self.max_bytes,
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
                return exchange.status, exchange.headers.get("location", ""), b""
            while (body := await exchange.body()) is None:
                pass
            return exchange.status, "", body
        finally:
            exchange.close(complete=False)
            client.close()


def _answered_with(status: int, headers: Mapping[str, str], body: bytes) -> BackendError:
    return BackendRefused(f"it answered with status {status}.", status=status)


def _refused(url: str, why: str, param: str) -> InvalidRequest:
    host = urlsplit(url).hostname or ""
    return InvalidRequest(f"The file cannot be downloaded from '{host}': {why}", param=param)
