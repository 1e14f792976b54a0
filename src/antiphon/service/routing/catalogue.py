"""The models as Codex wants to know them: which tools they can be offered, and when to compact."""

import asyncio
from collections.abc import Mapping, Sequence

from antiphon.backends.base import ModelInfo
from antiphon.backends.features import Feature, Support
from antiphon.protocol.codex_catalogue import CodexCatalogue, CodexModel, Effort, Truncation
from antiphon.service.codex_prompt import PROMPT
from antiphon.service.routing.capabilities import weakest
from antiphon.service.routing.router import Route, Router

HEADROOM = 8192
"""Tokens that are left for an answer when a conversation is compacted."""
SMALL = 32_768
"""Below this window there is no room for the tools with which Codex asks further agents."""
TOOL_OUTPUT = 10_000
"""Tokens of a tool's output that a model with room for them is shown."""
LEAST_OUTPUT = 500

_EFFORTS = (
    Effort("low", "Thinks little: quick answers"),
    Effort("medium", "Thinks as much as most tasks need"),
    Effort("high", "Thinks long: for what is hard"),
)


async def catalogue(router: Router, first: str = "") -> CodexCatalogue:
    """Every model that the router knows. The one that is named `first` is the default; it need not be listed,
    but must be served."""
    models = await router.models()
    if first:
        models = [ModelInfo(first), *(model for model in models if model.id != first)]
    described = [_describe(router, model, place) for place, model in enumerate(models)]
    return CodexCatalogue(tuple(await asyncio.gather(*described)))


async def _describe(router: Router, model: ModelInfo, place: int) -> CodexModel:
    routes = [route for route in router.routes(model.id) if not route.instead_of]
    features = weakest([route.backend.features(route.upstream) for route in routes])
    window = await smallest_window(routes)
    small = window is not None and window < SMALL
    return CodexModel(
        slug=model.id,
        display_name=model.id,
        description=f"Served by {', '.join(sorted({route.backend.name for route in routes}))}",
        priority=place,
        base_instructions=PROMPT,
        context_window=window,
        max_context_window=window,
        auto_compact_token_limit=compact_limit(window),
        truncation_policy=Truncation(tool_output_limit(window)),
        supported_reasoning_levels=_EFFORTS if _has(features, "reasoning_effort") else (),
        input_modalities=("text", "image") if _has(features, "images") else ("text",),
        supports_parallel_tool_calls=_has(features, "parallel_tool_calls"),
        multi_agent_version="disabled" if small else None,
    )


async def smallest_window(routes: Sequence[Route]) -> int | None:
    """The window that is enough whichever route is taken; None if none is known."""
    windows = await asyncio.gather(*(route.window() for route in routes))
    return min(filter(None, windows), default=None)


def compact_limit(window: int | None) -> int | None:
    """At how many tokens a conversation is compacted: what is left is enough for a good answer."""
    if window is None:
        return None
    return min(window * 9 // 10, window - min(HEADROOM, window // 4))


def tool_output_limit(window: int | None) -> int:
    """How much of a tool's output fits beside the rest."""
    return TOOL_OUTPUT if window is None else max(LEAST_OUTPUT, min(TOOL_OUTPUT, window // 8))


def _has(features: Mapping[Feature, Support], name: Feature) -> bool:
    return features[name].level != "unsupported"
