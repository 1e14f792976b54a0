"""Asks an upstream which models it has: a question that shows at once whether it can be used."""

import asyncio

from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.errors import BackendTimeout
from antiphon.settings import Settings, UpstreamSettings
from antiphon.wiring import make_endpoint


def check_rows(settings: Settings) -> None:
    """Raise `SettingsError` for a row that cannot be used, before anything depends on it."""
    for upstream in settings.upstreams:
        ChatCompletionsBackend(make_endpoint(upstream, settings.server.heartbeat))


async def offered_models(upstream: UpstreamSettings, seconds: float) -> list[str]:
    """The names that it tells within this time; raises `AntiphonError` if it does not."""
    backend = ChatCompletionsBackend(make_endpoint(upstream, heartbeat=seconds))
    try:
        async with asyncio.timeout(seconds):
            return [model.id for model in await backend.models()]
    except TimeoutError:
        raise BackendTimeout(f"The upstream '{backend.name}' did not answer within {seconds:g} s.") from None
    finally:
        await backend.aclose()
