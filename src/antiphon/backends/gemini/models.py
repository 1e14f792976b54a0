"""What the models of this dialect take, as data: they differ more than their servers do.

Found by the beginning of a model's name, the longest one that fits. A Gemini that is not listed is taken for
a new one, and gets only what all new ones take. Any other name is a model of another maker.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.requests import Effort

_FOUR: tuple[Effort, ...] = ("minimal", "low", "medium", "high")
_THREE: tuple[Effort, ...] = ("low", "medium", "high")


class Traits(Struct, frozen=True, kw_only=True):
    """What a model takes."""

    thinking: Literal["levels", "budget"] | None = "levels"
    """How the amount of thinking is requested: by level, in tokens; None: it does not think."""
    levels: tuple[Effort, ...] = _THREE
    budget: tuple[int, int] = (0, 0)
    """The fewest and the most tokens to think with."""
    off: bool = False
    """Whether thinking can be switched off."""
    signs: bool = True
    """Whether a call of its own is refused without its thought signature."""
    ids: bool = True
    """Whether calls and outputs have ids; if not, their order ties them."""
    media_in_outputs: bool = True
    """Whether the output of a call may hold images and files."""
    json_with_tools: bool = True
    """Whether JSON is enforced while there are tools."""
    validated: bool = True
    """Whether calls are held to the schemas of their tools though none must be made."""
    sampling: bool = False
    """Whether it takes `temperature` and `top_p`."""
    penalties: bool = False
    """Whether it takes `presence_penalty` and `frequency_penalty`."""
    logprobs: bool = False


_EARLY = Traits(
    thinking=None,
    signs=False,
    ids=False,
    media_in_outputs=False,
    json_with_tools=False,
    validated=False,
    sampling=True,
    penalties=True,
    logprobs=True,
)
_TWO_FIVE = replace(_EARLY, thinking="budget", validated=True)
_THIRD = Traits(sampling=True, penalties=True)
_NEWER = Traits()

MODELS: Mapping[str, Traits] = {
    "gemini-1": _EARLY,
    "gemini-2": _EARLY,
    "gemini-2.5-pro": replace(_TWO_FIVE, budget=(128, 32_768)),
    "gemini-2.5-flash": replace(_TWO_FIVE, budget=(1, 24_576), off=True),
    "gemini-2.5-flash-lite": replace(_TWO_FIVE, budget=(512, 24_576), off=True),
    "gemini-2.5-flash-image": _EARLY,
    "gemini-3-": replace(_THIRD, levels=("low", "high")),
    "gemini-3-flash": replace(_THIRD, levels=_FOUR),
    "gemini-3.1": _THIRD,
    "gemini-3.1-flash-lite": replace(_THIRD, levels=_FOUR),
    "gemini-3.1-flash-image": replace(_THIRD, levels=("minimal", "high")),
    "gemini-3.1-flash-lite-image": replace(_THIRD, levels=("minimal", "high")),
    "gemini-3.5-flash": replace(_THIRD, levels=_FOUR),
    "gemini-3.5-flash-lite": replace(_NEWER, levels=_FOUR),
    "gemini-3.6-flash": replace(_NEWER, levels=_FOUR),
    "gemini-": _NEWER,
    "": _EARLY,
}


def traits_of(model: str) -> Traits:
    """What this model takes. What stands before a slash (``models/…``) is no part of the name."""
    name = model.rpartition("/")[2]
    return MODELS[max((start for start in MODELS if name.startswith(start)), key=len)]
