"""The answers of an upstream, with the used fields only. Decoding is the hot path, and every field costs."""

from typing import Any

import msgspec
from msgspec import Struct


class CallWire(Struct, gc=False):
    """A call, which arrives complete."""

    id: str | None = None
    name: str | None = None
    args: Any = None


class BlobWire(Struct, gc=False, rename="camel"):
    """Binary data in base64."""

    mime_type: str = ""
    data: str = ""


class PartWire(Struct, gc=False, rename="camel"):
    """A part of the answer. Unknown kinds are ignored."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: CallWire | None = None
    inline_data: BlobWire | None = None


class ContentWire(Struct, gc=False):
    """Parts; none in an empty answer."""

    parts: list[PartWire] | None = None


class TokenWire(Struct, gc=False, rename="camel"):
    """A token and its log probability."""

    token: str = ""
    log_probability: float = 0.0


class TokensWire(Struct, gc=False):
    """The most probable tokens at one position."""

    candidates: list[TokenWire] | None = None


class LogprobsWire(Struct, gc=False, rename="camel"):
    """The chosen tokens, and the most probable ones at every position."""

    chosen_candidates: list[TokenWire] | None = None
    top_candidates: list[TokensWire] | None = None


class CandidateWire(Struct, gc=False, rename="camel"):
    """An answer, or a piece of one. Only one is ever requested."""

    content: ContentWire | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int = 0
    logprobs_result: LogprobsWire | None = None
    grounding_metadata: Any = None


class FeedbackWire(Struct, gc=False, rename="camel"):
    """Why a prompt is not answered."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class UsageWire(Struct, gc=False, rename="camel"):
    """The token counts. Thoughts, and the results of a server's own tools, are counted separately."""

    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class AnswerWire(Struct, gc=False, rename="camel"):
    """A complete answer, or one event of a stream: they have the same form."""

    candidates: list[CandidateWire] | None = None
    usage_metadata: UsageWire | None = None
    prompt_feedback: FeedbackWire | None = None
    error: Any = None


class ModelWire(Struct, gc=False, rename="camel"):
    """One model of the list."""

    name: str
    supported_generation_methods: list[str] | None = None


class ModelsWire(Struct, gc=False, rename="camel"):
    """The list of models, under the names of both APIs."""

    models: list[ModelWire] | None = None
    publisher_models: list[ModelWire] | None = None


decode_answer = msgspec.json.Decoder(AnswerWire, strict=False).decode
decode_answers = msgspec.json.Decoder(list[AnswerWire], strict=False).decode
decode_models = msgspec.json.Decoder(ModelsWire, strict=False).decode
