"""Asks an upstream which models it has: a question that shows at once whether it can be used."""

import asyncio
from contextlib import suppress

from antiphon.cli.weights import local_name
from antiphon.errors import BackendTimeout, SettingsError
from antiphon.service.routing.names import LOCAL_ALIAS, check_names
from antiphon.settings import Settings, UpstreamSettings
from antiphon.wiring.backends import make_backend
from antiphon.wiring.live import routed_names


def check_rows(settings: Settings) -> None:
    """Raise `SettingsError` for a row that cannot be used, or a name that leads nowhere, before anything
    depends on it."""
    for upstream in settings.upstreams:
        make_backend(upstream, settings.server.heartbeat)
    served = set(settings.model_names)
    if settings.serves_local_model:
        served.add(LOCAL_ALIAS)
        with suppress(SettingsError):  # that its file is missing is said elsewhere
            served.add(local_name(settings.local.model))
    check_names(routed_names(settings), served)


async def offered_models(upstream: UpstreamSettings, seconds: float) -> list[str]:
    """The names that it tells within this time; raises `AntiphonError` if it does not."""
    backend = make_backend(upstream, heartbeat=seconds)
    try:
        async with asyncio.timeout(seconds):
            return [model.id for model in await backend.models()]
    except TimeoutError:
        raise BackendTimeout(f"The upstream '{backend.name}' did not answer within {seconds:g} s.") from None
    finally:
        await backend.aclose()
