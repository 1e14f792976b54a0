"""The one list of checks of a server before it starts.

`antiphon serve` does not start if one of them failed, and logs the warnings; `antiphon doctor` shows them
all. So both have the same opinion. Nothing is created or changed by a check.
"""

import asyncio
import logging
from collections.abc import Sequence

from antiphon.cli.models import check_upstreams
from antiphon.cli.startup.check import Check, check_folder, failed, passed
from antiphon.cli.startup.keys import check_key_variables, check_keys
from antiphon.cli.startup.store import check_store
from antiphon.errors import SettingsError
from antiphon.settings import Settings
from antiphon.wiring import data_folder, store_path
from antiphon.wiring.agent import make_agent

logger = logging.getLogger(__name__)


def startup_checks(settings: Settings) -> list[Check]:
    """All checks of these settings, the most basic first."""
    return [
        check_models(settings),
        check_data_folder(settings),
        *asyncio.run(_check_database(settings)),
        check_agent(settings),
        *check_key_variables(settings),
    ]


async def _check_database(settings: Settings) -> list[Check]:
    return [await check_store(settings), *await check_keys(settings)]


def require_startup(checks: Sequence[Check]) -> None:
    """Raise `SettingsError` for the first check that failed, and log the warnings."""
    for check in checks:
        if check.status == "failed":
            raise SettingsError(check.problem)
    for check in checks:
        if check.status == "warning":
            logger.warning("%s", check.problem)


def check_models(settings: Settings) -> Check:
    """Whether the upstreams can be used, and every alias and fallback has a model."""
    try:
        check_upstreams(settings)
    except SettingsError as error:
        return failed("models", "the settings name a model or an upstream that cannot be used", error.message)
    return passed("models", f"{len(settings.upstreams)} upstreams, {len(settings.aliases)} aliases")


def check_data_folder(settings: Settings) -> Check:
    """Whether the data folder can be used. A server that stores nothing in it does not need it."""
    folder = data_folder()
    stores_here = settings.store.url.startswith("sqlite:") and folder in store_path(settings).parents
    if settings.seal.key and not stores_here and not settings.codex.enabled:
        return passed("data folder", f"{folder} (not needed)")
    return check_folder("data folder", folder)


def check_agent(settings: Settings) -> Check:
    """Whether the agent can be built from the settings."""
    try:
        agent = make_agent(settings.agent)
    except SettingsError as error:
        return failed("agent", error.message, "Correct the section [agent] of the settings.")
    folders = len(settings.agent.documents)
    found = f"{len(agent.modes.all())} modes, {len(agent.tools.names)} tools, {folders} folders of documents"
    return passed("agent", found)
