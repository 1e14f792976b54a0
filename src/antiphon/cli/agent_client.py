"""Whom an agent asks that runs in this process: the service beside it, or a server."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from antiphon.cli.remote import API_KEY
from antiphon.embedded import Antiphon
from antiphon.orchestrator.client import InProcessResponsesClient, RememberingClient, ResponsesClient
from antiphon.orchestrator.http_client import HttpResponsesClient
from antiphon.settings import Settings


@asynccontextmanager
async def open_client(base_url: str | None, settings: Settings) -> AsyncGenerator[ResponsesClient, None]:
    """The server at this address, or the service of the settings."""
    if base_url is not None:
        key = os.environ.get(API_KEY)
        # Anybody's server may be there, and not all of them inherit the tools of the response before.
        async with HttpResponsesClient(base_url, api_key=key, resend_tools=True) as client:
            yield client
    else:
        async with Antiphon(settings) as antiphon:
            client = InProcessResponsesClient(antiphon)
            yield RememberingClient(client) if settings.store.url == "none" else client
