"""The features of a backend, each native, emulated or unsupported, with the reason."""

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
    "constrained_text",
    "parallel_tool_calls",
    "single_tool_calls",
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


# `grammars` is about the input of a custom tool, `constrained_text` about the text of an answer: whether it
# can be held to a grammar. `parallel_tool_calls`: the model may call several tools at once.
# `single_tool_calls`: it can be held to one (`parallel_tool_calls: false`).


class Support(Struct, frozen=True, omit_defaults=True):
    """How a feature is served. `why` is one sentence; a native feature needs none."""

    level: Level
    why: str = ""


FEATURES: tuple[Feature, ...] = get_args(Feature)
Features = Mapping[Feature, Support]
"""Every feature has an entry."""

NATIVE = Support("native")
