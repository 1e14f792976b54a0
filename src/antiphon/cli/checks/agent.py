"""The agent: whether its modes, tools and documents are there."""

from antiphon.cli.checks.base import Check, failed, passed
from antiphon.errors import SettingsError
from antiphon.settings import Settings
from antiphon.wiring.agent import make_agent


def check_agent(settings: Settings) -> Check:
    """Put it together as the server does."""
    try:
        agent = make_agent(settings.agent)
    except SettingsError as error:
        return failed("agent", error.message, "Correct the section [agent] of the settings.")
    folders = len(settings.agent.documents)
    found = f"{len(agent.modes.all())} modes, {len(agent.tools.names)} tools, {folders} folders of documents"
    return passed("agent", found)
