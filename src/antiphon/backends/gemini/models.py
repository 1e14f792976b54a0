"""The properties of the models of this dialect, as data.

A row is selected by the longest matching prefix of the model's name. An unlisted Gemini is treated as a new
model, and receives only what all new models accept. Any other name is a model of another vendor.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.requests import Effort

_FOUR: tuple[Effort, ...] = ("minimal", "low", "medium", "high")
_THREE: tuple[Effort, ...] = ("low", "medium", "high")


class Traits(Struct, frozen=True, kw_only=True):
    """The properties of a model."""

    thinking: Literal["levels", "budget"] | None = "levels"
    """How the amount of thinking is requested: by level, in tokens; None: it does not think."""
    levels: tuple[Effort, ...] = _THREE
    budget: tuple[int, int] = (0, 0)
    """The fewest and the most tokens to think with."""
    off: bool = False
    """Whether thinking can be switched off."""
    signs: bool = True
    """Whether the API rejects the model's calls without their thought signatures."""
    ids: bool = True
    """Whether calls and outputs have ids; if not, they are matched by their order."""
    media_in_outputs: bool = True
    """Whether the output of a call may contain images and files."""
    json_with_tools: bool = True
    """Whether JSON is enforced while there are tools."""
    validated: bool = True
    """Whether the API enforces the schemas of tools if no call is required."""
    sampling: bool = False
    """Whether it accepts `temperature` and `top_p`."""
    penalties: bool = False
    """Whether it accepts `presence_penalty` and `frequency_penalty`."""
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
    """The properties of a model. A prefix with a slash (``models/…``) is not part of the name."""
    name = model.rpartition("/")[2]
    return MODELS[max((start for start in MODELS if name.startswith(start)), key=len)]
