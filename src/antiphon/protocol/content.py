"""Content parts of messages, reasoning items and tool outputs."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

JsonObject = dict[str, Any]
"""A JSON object that is passed on unread."""
Metadata = dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]]
"""A client's own pairs."""


class InputText(Struct, tag_field="type", tag="input_text", frozen=True, omit_defaults=True, kw_only=True):
    """Text from the caller. `text` is accepted as another name of this type."""

    text: str
    prompt_cache_breakpoint: JsonObject | UnsetType = UNSET


class InputImage(Struct, tag_field="type", tag="input_image", frozen=True, omit_defaults=True, kw_only=True):
    """An image by URL (``https:`` or ``data:``) or by the id of a file."""

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto", "original"] | None = None
    prompt_cache_breakpoint: JsonObject | UnsetType = UNSET


class InputFile(Struct, tag_field="type", tag="input_file", frozen=True, omit_defaults=True, kw_only=True):
    """A document by id, by URL or as a data URL."""

    file_id: str | None = None
    file_url: str | None = None
    file_data: str | None = None
    filename: str | None = None
    detail: str | None = None
    prompt_cache_breakpoint: JsonObject | UnsetType = UNSET


class InputAudio(Struct, tag_field="type", tag="input_audio", frozen=True, omit_defaults=True, kw_only=True):
    """Sound; in the SDK's types, but no message may hold it yet."""

    input_audio: JsonObject


class TopLogprob(Struct, frozen=True):
    """One alternative of a token."""

    token: str
    bytes: list[int] | None
    logprob: float


class Logprob(Struct, frozen=True):
    """How likely a token was, and its best alternatives."""

    token: str
    bytes: list[int] | None
    logprob: float
    top_logprobs: list[TopLogprob] = []


class OutputText(Struct, tag_field="type", tag="output_text", frozen=True, kw_only=True):
    """Text from the model. The first three fields are always on the wire, the last on some endpoints only."""

    text: str
    annotations: list[JsonObject] = []
    logprobs: list[Logprob] = []
    prompt_cache_breakpoint: JsonObject | UnsetType = UNSET


class Refusal(Struct, tag_field="type", tag="refusal", frozen=True):
    """The model's refusal to answer."""

    refusal: str


class ReasoningText(Struct, tag_field="type", tag="reasoning_text", frozen=True):
    """Raw reasoning."""

    text: str


class SummaryText(Struct, tag_field="type", tag="summary_text", frozen=True):
    """One part of a reasoning summary."""

    text: str


MessagePart = InputText | InputImage | InputFile | InputAudio | OutputText | Refusal
