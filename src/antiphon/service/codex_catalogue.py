"""The catalogue of models that Codex reads: ``GET /v1/models?client_version=0.166.0``.

Codex requests it from providers whose key comes from a command, and reads the same JSON from a file
(`model_catalog_json`). It decides by it which tools to offer, what to attach, and when to compact. Codex
ignores members that it does not know; every member that some version since `OLDEST` requires is here.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.backends.base import ModelInfo
from antiphon.backends.features import Feature, Support
from antiphon.errors import InvalidRequest
from antiphon.service.codex_prompt import PROMPT
from antiphon.service.routing.capabilities import weakest
from antiphon.service.routing.names import is_pattern
from antiphon.service.routing.router import Route, Router

Version = tuple[int, int, int]

OLDEST: Version = (0, 140, 0)
"""Older versions read another form: they reject the catalogue if it has one effort that they do not know."""
UNRELEASED: Version = (0, 0, 0)
"""The version of a Codex that was built from its sources."""
PARAMETER = "client_version"
ANSWER_TOKENS = 8192
"""Room that compaction leaves for an answer."""
SMALL_WINDOW_TOKENS = 32_768
"""A smaller window has no room for the tools with which Codex starts further agents."""
MAX_TOOL_OUTPUT_TOKENS = 10_000
MIN_TOOL_OUTPUT_TOKENS = 500

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:[-+][0-9A-Za-z.+-]{1,64})?")


class Effort(Struct, frozen=True):
    effort: str
    description: str


class Truncation(Struct, frozen=True):
    """How much of a tool's output the model is shown."""

    limit: int
    mode: Literal["tokens", "bytes"] = "tokens"


class CodexModel(Struct, frozen=True, kw_only=True):
    """One model. Codex calls its name `slug`."""

    slug: str
    display_name: str
    description: str
    priority: int
    """The model with the lowest is the default; the picker is sorted by it."""
    base_instructions: str
    context_window: int | None
    max_context_window: int | None
    auto_compact_token_limit: int | None
    truncation_policy: Truncation
    supported_reasoning_levels: tuple[Effort, ...]
    input_modalities: tuple[Literal["text", "image"], ...]
    supports_parallel_tool_calls: bool
    multi_agent_version: Literal["disabled"] | None
    default_reasoning_level: str | None = None
    """None: Codex sends no effort, and the upstream's default applies."""
    shell_type: Literal["unified_exec"] = "unified_exec"
    apply_patch_tool_type: Literal["freeform"] | None = "freeform"
    visibility: Literal["list"] = "list"
    supported_in_api: bool = True
    support_verbosity: bool = False
    default_verbosity: str | None = None
    supports_reasoning_summaries: bool = True
    supports_reasoning_summary_parameter: bool = True
    default_reasoning_summary: Literal["auto"] = "auto"
    supports_search_tool: bool = False
    supports_image_detail_original: bool = False
    effective_context_window_percent: int = 95
    experimental_supported_tools: tuple[str, ...] = ()
    availability_nux: None = None
    upgrade: None = None


class CodexCatalogue(Struct, frozen=True):
    models: tuple[CodexModel, ...]


def parse_client_version(text: str) -> Version:
    """The client's version. An unknown client is rejected, since it could not read the catalogue."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise InvalidRequest(
            f"Invalid value for '{PARAMETER}': '{text[:100]}' is not a version of Codex such as '0.166.0'. "
            "Without this parameter, the models are listed in OpenAI's format.",
            param=PARAMETER,
            code="unknown_client",
        )
    version = (int(found[1]), int(found[2]), int(found[3]))
    if version != UNRELEASED and version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise InvalidRequest(
            f"Codex {text[:100]} cannot read this catalogue. Use version {oldest} or newer: "
            "npm install -g @openai/codex",
            param=PARAMETER,
            code="unknown_client",
        )
    return version


def encode_catalogue(catalogue: CodexCatalogue) -> bytes:
    return msgspec.json.encode(catalogue)


_EFFORTS = (
    Effort("low", "Little reasoning: quick answers"),
    Effort("medium", "As much reasoning as most tasks need"),
    Effort("high", "Long reasoning: for hard tasks"),
)


async def catalogue(router: Router, first: str = "") -> CodexCatalogue:
    """Every model of the router. `first` is the default; it must be served, but need not be listed."""
    models = [model for model in await router.models() if not is_pattern(model.id)]
    if first:
        models = [ModelInfo(first), *(model for model in models if model.id != first)]
    described = [_describe(router, model, place) for place, model in enumerate(models)]
    return CodexCatalogue(tuple(await asyncio.gather(*described)))


async def _describe(router: Router, model: ModelInfo, place: int) -> CodexModel:
    routes = [route for route in router.routes(model.id) if not route.instead_of]
    features = weakest([route.backend.features(route.upstream) for route in routes])
    images = [await route.image_support() for route in routes]
    window = await smallest_window(routes)
    small = window is not None and window < SMALL_WINDOW_TOKENS
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
        input_modalities=("text", "image") if all(map(_is_served, images)) else ("text",),
        supports_parallel_tool_calls=_has(features, "parallel_tool_calls"),
        multi_agent_version="disabled" if small else None,
    )


async def smallest_window(routes: Sequence[Route]) -> int | None:
    """The smallest window of the routes; None if none is known."""
    windows = await asyncio.gather(*(route.window() for route in routes))
    return min(filter(None, windows), default=None)


def compact_limit(window: int | None) -> int | None:
    """The number of tokens at which Codex compacts; the rest of the window is for the answer."""
    if window is None:
        return None
    return min(window * 9 // 10, window - min(ANSWER_TOKENS, window // 4))


def tool_output_limit(window: int | None) -> int:
    if window is None:
        return MAX_TOOL_OUTPUT_TOKENS
    return max(MIN_TOOL_OUTPUT_TOKENS, min(MAX_TOOL_OUTPUT_TOKENS, window // 8))


def _has(features: Mapping[Feature, Support], name: Feature) -> bool:
    return _is_served(features[name])


def _is_served(support: Support) -> bool:
    return support.level != "unsupported"
