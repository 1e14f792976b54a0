"""The properties of the models of this dialect, as data.

A row is selected by the longest matching prefix of the model's name. An unlisted Claude is treated as a new
model, and receives only what all new models accept. Any other name is a model of another vendor, whose server
supports the first version of the dialect.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.requests import Effort


class Traits(Struct, frozen=True, kw_only=True):
    """The properties of a model."""

    thinking: Literal["adaptive", "budget"] | None = "adaptive"
    """How thinking is requested: `adaptive`, the model decides how much; `budget`, in tokens."""
    unasked: bool = False
    """Whether it thinks without a request to."""
    off: Literal["disabled", "between_tools"] | None = "disabled"
    """How thinking is switched off; None: it always thinks."""
    silent: bool = False
    """Whether it does not show its thoughts unless asked to."""
    signs: bool = True
    """Whether a thought counts only with its signature."""
    binds: bool = False
    """Whether the API rejects a thought after anything before it has changed."""
    efforts: tuple[Effort, ...] = ()
    sampling: bool = True
    """Whether it takes `temperature` and `top_p`."""
    both_samplings: bool = False
    """Whether it takes the two together."""
    forced: bool = True
    """Whether it can be made to call a tool."""
    schemas: bool = True
    """Whether its answer, and its calls, can be held to a JSON schema."""
    late_system: bool = False
    """Whether it heeds a system message in the course of the conversation."""
    max_tokens: int = 64_000
    """The bound of an answer where the caller gives none: the dialect wants one."""


_LEVELS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")
_EARLY = Traits(thinking=None, schemas=False, both_samplings=True, max_tokens=4096)
# Before 4.5 the prompt and the bound together must fit into the context: a high bound would refuse long ones.
_FIRST_TO_THINK = Traits(thinking="budget", schemas=False, both_samplings=True, max_tokens=16_000)
_FOUR_FIVE = Traits(thinking="budget")
_FOUR_SIX = Traits(efforts=("low", "medium", "high", "max"))
_FOUR_SEVEN = Traits(efforts=_LEVELS, sampling=False, silent=True)
_FIVE = replace(_FOUR_SEVEN, unasked=True)
_ALWAYS = replace(_FIVE, off=None)

MODELS: Mapping[str, Traits] = {
    "claude-3": _EARLY,
    "claude-3-5": replace(_EARLY, max_tokens=8192),
    "claude-3-7": _FIRST_TO_THINK,
    "claude-4": _FIRST_TO_THINK,
    "claude-opus-4": _FIRST_TO_THINK,
    "claude-sonnet-4": _FIRST_TO_THINK,
    "claude-opus-4-1": replace(_FIRST_TO_THINK, schemas=True, both_samplings=False),
    "claude-haiku-4-5": _FOUR_FIVE,
    "claude-sonnet-4-5": _FOUR_FIVE,
    "claude-opus-4-5": replace(_FOUR_FIVE, efforts=("low", "medium", "high")),
    "claude-opus-4-6": _FOUR_SIX,
    "claude-sonnet-4-6": _FOUR_SIX,
    "claude-opus-4-7": _FOUR_SEVEN,
    "claude-opus-4-8": replace(_FOUR_SEVEN, late_system=True),
    "claude-mythos-preview": _ALWAYS,
    "claude-fable-5": replace(_ALWAYS, late_system=True),
    "claude-mythos-5": replace(_ALWAYS, late_system=True),
    "claude-fable-5-1": replace(_ALWAYS, late_system=True, forced=False, binds=True),
    "claude-fable-5-2": replace(_ALWAYS, late_system=True, forced=False, binds=True),
    "claude-mythos-5-1": replace(_ALWAYS, late_system=True, forced=False),
    "claude-mythos-5-2": replace(_ALWAYS, late_system=True, forced=False),
    "claude-opus-5": replace(_FIVE, late_system=True),
    "claude-opus-5-5": replace(_ALWAYS, late_system=True, forced=False, binds=True),
    "claude-sonnet-5": _FIVE,
    "claude-sonnet-5-5": replace(_FIVE, off="between_tools", late_system=True, forced=False, binds=True),
    "claude-haiku-5-5": replace(_FIVE, late_system=True, binds=True),
    "claude-": replace(_ALWAYS, forced=False),
    "": Traits(thinking="budget", signs=False, schemas=False, both_samplings=True, max_tokens=8192),
}


def traits_of(model: str) -> Traits:
    """The properties of a model. A cloud's prefix (``us.anthropic.claude-…``) is not part of the name."""
    name = model[max(0, model.find("claude-")) :]
    return MODELS[max((start for start in MODELS if name.startswith(start)), key=len)]
