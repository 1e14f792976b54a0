"""The tool `web_search` from the settings, and the limits of its pages."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from antiphon.documents.reader import DocumentReader
from antiphon.errors import InvalidRequest, SettingsError
from antiphon.isolated.pool import IsolatedPool
from antiphon.settings import Settings
from antiphon.settings.hosted_tools import WebSearchSettings
from antiphon.settings.sections import EgressSettings
from antiphon.web.pages import WebPageReader
from antiphon.web.port import DomainRules
from antiphon.wiring.web_search import make_web_search
from tests.http.raw_upstream import answering, complete_response, raw_upstream


def settings(**row: Any) -> Settings:
    given: dict[str, Any] = {"kind": "searxng", "url": "http://localhost:8888", **row}
    search = WebSearchSettings(**given)
    return Settings(web_search=search, egress=EgressSettings(allow=("127.0.0.1",)))


@pytest.mark.requirement("HOSTED/web-pages")
async def test_pages_are_opened_with_the_limits_of_the_settings() -> None:
    async with AsyncExitStack() as stack:
        pool = IsolatedPool()
        stack.push_async_callback(pool.aclose)
        made = make_web_search(settings(page_mb=1), DocumentReader(pool), stack)
        assert made is not None
        assert isinstance(made.pages, WebPageReader)
        large = complete_response(200, b"x" * (2**20 + 1), media="text/plain")
        async with raw_upstream(
            answering(complete_response(200, b"Hi", media="text/plain")), answering(large)
        ) as site:
            assert (await made.pages.open("t", site.url, DomainRules())).text == "Hi"
            with pytest.raises(InvalidRequest, match="size limit"):
                await made.pages.open("t", f"{site.url}/large", DomainRules())


async def test_pages_can_be_switched_off_and_no_engine_is_no_tool() -> None:
    async with AsyncExitStack() as stack:
        reader = DocumentReader(IsolatedPool())
        made = make_web_search(settings(open_pages=False), reader, stack)
        assert made is not None
        assert made.pages is None
        assert make_web_search(settings(kind=""), reader, stack) is None
        with pytest.raises(SettingsError, match="needs the address"):
            make_web_search(settings(url=""), reader, stack)
