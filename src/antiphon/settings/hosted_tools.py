"""The section of the settings about hosted tools."""

from typing import Annotated

from msgspec import Meta, Struct


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Hosted tools."""

    ignore: tuple[str, ...] = (
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    )
    """Hosted tools that are left out and reported, instead of refused, if nothing serves them; `*`: all."""
    max_rounds: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Rounds of a response in which a model may call hosted tools of this server before it has to answer."""
    parallel_calls: Annotated[int, Meta(ge=1, le=1000)] = 8
    """Calls of hosted tools of one turn that run at the same time."""
    call_seconds: Annotated[float, Meta(gt=0)] = 120.0
    """The time of one call of a hosted tool."""
    search_tokens: Annotated[int, Meta(ge=100)] = 16_000
    """Tokens of the results of one `file_search` that a model is shown."""
    result_tokens: Annotated[int, Meta(ge=100)] = 48_000
    """Tokens of the results of all searches of a conversation that a model is shown."""
