"""The hosted tools that this server runs, from the settings."""

from antiphon.service.hosted_tools.base import ServedTool
from antiphon.service.hosted_tools.calls import HostedLimits
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.vector_stores.search import Passages
from antiphon.settings import Settings
from antiphon.store.ports import Stores


def make_served_tools(settings: Settings, stores: Stores, passages: Passages) -> tuple[ServedTool, ...]:
    """The tools. Without a store there is nothing that they could search."""
    if stores.stateless:
        return ()
    return (FileSearch(passages, settings.tools.search_tokens),)


def hosted_limits(settings: Settings) -> HostedLimits:
    """The limits of hosted tools in one response."""
    tools = settings.tools
    return HostedLimits(
        max_rounds=tools.max_rounds, parallel_calls=tools.parallel_calls, call_seconds=tools.call_seconds
    )
