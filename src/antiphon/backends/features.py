"""What a backend serves, feature by feature: natively, by emulation, or not at all; and why."""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

from antiphon.turn.tools import FUNCTIONS

__all__ = ["FEATURES", "FUNCTIONS", "NATIVE", "Feature", "Features", "Level", "Support"]

Level = Literal["native", "emulated", "unsupported"]
Feature = Literal[
    "streaming",
    "usage",
    "function_tools",
    "custom_tools",
    "grammars",
    "parallel_tool_calls",
    "tool_choice_required",
    "tool_choice_named",
    "structured_output",
    "json_mode",
    "reasoning",
    "reasoning_effort",
    "reasoning_replay",
    "images",
    "files",
    "audio",
    "logprobs",
    "prompt_caching",
]


class Support(Struct, frozen=True, omit_defaults=True):
    """How a feature is served. `why` is one sentence; a native feature needs none."""

    level: Level
    why: str = ""


FEATURES: tuple[Feature, ...] = get_args(Feature)
Features = Mapping[Feature, Support]
"""Every feature has an entry."""

NATIVE = Support("native")
