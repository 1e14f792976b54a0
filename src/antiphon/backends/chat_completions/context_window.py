"""Asks an endpoint for the context windows of its models, at the places that its row names."""

import asyncio
import logging

import msgspec

from antiphon.backends.exchange import fetch
from antiphon.backends.http import Upstream
from antiphon.backends.registry import WindowSource
from antiphon.errors import BackendError

logger = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds for each place. Who asks for a list of models must not wait for one that hangs."""


async def ask_for_window(upstream: Upstream, source: WindowSource, model: str) -> bytes | None:
    """What the endpoint says there; None if it says nothing. Never an error."""
    if source.form == "show":
        request = upstream.request("POST", source.path, msgspec.json.encode({"model": model}))
    else:
        request = upstream.request("GET", source.path)
    try:
        async with asyncio.timeout(PATIENCE):
            return await fetch(upstream, request, PATIENCE)
    except (BackendError, TimeoutError) as error:
        logger.debug("%s does not tell context windows at %s: %r", upstream.endpoint.name, source.path, error)
        return None
