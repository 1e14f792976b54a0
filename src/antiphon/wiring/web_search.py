"""The search engine of the web from the settings."""

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack

from antiphon.documents.reader import DocumentReader
from antiphon.errors import SettingsError
from antiphon.http.download import Downloader
from antiphon.http.egress import AllowPublic
from antiphon.known_secrets import KNOWN_SECRETS
from antiphon.service.hosted_tools.web_search import WebSearch
from antiphon.settings import Settings
from antiphon.web.engines import DEFAULT_URLS, make_engine
from antiphon.web.pages import WebPageReader


def make_web_search(
    settings: Settings,
    documents: DocumentReader,
    stack: AsyncExitStack,
    environment: Mapping[str, str] = os.environ,
) -> WebSearch | None:
    """The tool; None if no engine is configured. Raises `SettingsError`. The stack closes the engine."""
    row = settings.web_search
    if not row.kind:
        return None
    url = row.url or DEFAULT_URLS.get(row.kind, "")
    if not url:
        raise SettingsError(f"web_search.url: the kind '{row.kind}' needs the address of the server.")
    key = environment.get(row.key_env, "") if row.key_env else ""
    if row.key_env and not key:
        raise SettingsError(f"web_search.key_env: the variable {row.key_env} is not set.")
    if row.kind != "searxng" and not key:
        raise SettingsError(f"web_search.key_env: the kind '{row.kind}' needs a key.")
    KNOWN_SECRETS.add(key)
    engine = make_engine(row.kind, url, key, row.timeout)
    stack.callback(engine.close)
    pages = None
    if row.open_pages:
        egress = AllowPublic(settings.egress.allow, settings.egress.deny)
        pages = WebPageReader(Downloader(egress, row.page_mb * 2**20, row.page_seconds), documents)
    return WebSearch(engine, settings.tools.search_tokens, pages)
