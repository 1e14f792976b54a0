"""The answers of an upstream, with the used fields only. Decoding is the hot path, and every field costs.

Liberal: null means absent, unknown fields are ignored, numbers may be strings.
"""

from typing import Any

import msgspec
from msgspec import Struct

from antiphon.protocol.content import JsonObject


class FunctionWire(Struct, gc=False):
    """A function call, or a piece of one. Some servers send `arguments` as an object."""

    name: str | None = None
    arguments: Any = None


class CallWire(Struct, gc=False):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: FunctionWire | None = None


class PieceWire(Struct, gc=False):
    """A part of a content list; Mistral's reasoning models put their thinking into one."""

    type: str = ""
    text: str | None = None
    thinking: "list[PieceWire] | str | None" = None


class DeltaWire(Struct, gc=False):
    """A piece of a message, or a complete one."""

    content: str | list[PieceWire] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallWire] | None = None
    function_call: FunctionWire | None = None
    annotations: list[JsonObject] | None = None


class AlternativeWire(Struct, gc=False):
    """One alternative of a token."""

    token: str
    logprob: float
    bytes: list[int] | None = None


class TokenWire(Struct, gc=False):
    """A token's probability."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[AlternativeWire] | None = None


class LogprobsWire(Struct, gc=False):
    """Probabilities of the content's tokens."""

    content: list[TokenWire] | None = None


class ChoiceWire(Struct, gc=False):
    """One answer; in a stream a piece of it is `delta`, in a complete one it is `message`."""

    index: int = 0
    delta: DeltaWire | None = None
    message: DeltaWire | None = None
    finish_reason: str | None = None
    logprobs: LogprobsWire | None = None
    error: Any = None


class PromptDetailsWire(Struct, gc=False):
    """Where the prompt's tokens came from."""

    cached_tokens: int | None = None


class CompletionDetailsWire(Struct, gc=False):
    """The output tokens that were used for reasoning."""

    reasoning_tokens: int | None = None


class UsageWire(Struct, gc=False):
    """The token counts. DeepSeek reports cached tokens outside the details."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetailsWire | None = None
    completion_tokens_details: CompletionDetailsWire | None = None
    prompt_cache_hit_tokens: int | None = None


class CompletionWire(Struct, gc=False):
    """A chunk of a stream, or a complete one."""

    choices: list[ChoiceWire] | None = None
    usage: UsageWire | None = None
    error: Any = None


class ModelWire(Struct, gc=False):
    """One model of the list."""

    id: str
    created: int | None = None
    owned_by: str | None = None


class ModelsWire(Struct, gc=False):
    """The list of models."""

    data: list[ModelWire] | None = None


decode_completion = msgspec.json.Decoder(CompletionWire, strict=False).decode
decode_models = msgspec.json.Decoder(ModelsWire, strict=False).decode
