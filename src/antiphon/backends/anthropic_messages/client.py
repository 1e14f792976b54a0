"""`AnthropicMessagesBackend`: runs turns on a server that speaks Anthropic's Messages API."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import ClassVar

from antiphon.backends.anthropic_messages.errors import ERRORS
from antiphon.backends.anthropic_messages.models import Traits, traits_of
from antiphon.backends.anthropic_messages.request import build_payload
from antiphon.backends.anthropic_messages.stream import StreamReader
from antiphon.backends.anthropic_messages.thinking import wants_summary
from antiphon.backends.anthropic_messages.wire import decode_models
from antiphon.backends.base import ModelInfo
from antiphon.backends.features import NATIVE, Feature, Features, Support
from antiphon.backends.http_backend import Call, HttpBackend
from antiphon.backends.registry import Quirks
from antiphon.turn.context import TurnRequest

VERSION = "2023-06-01"


class AnthropicMessagesBackend(HttpBackend):
    """The dialect of ``POST /v1/messages``.

    Its paths are below the server's root, so that a base URL may end before '/v1', as in Anthropic's SDKs, or
    with it.
    """

    api_key_header = "x-api-key"
    api_key_prefix = ""
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": VERSION}
    models_path = "/v1/models?limit=1000"
    models_format = "Anthropic's"
    errors = ERRORS

    def features(self, model: str) -> Features:
        return message_features(self.endpoint.quirks, traits_of(model))

    def translate(self, turn: TurnRequest) -> Call:
        payload = build_payload(turn, self.endpoint)
        reader = partial(StreamReader, self.endpoint, summarised=wants_summary(turn.params))
        return Call("/v1/messages", payload, reader)

    def read_models(self, body: bytes) -> list[ModelInfo]:
        found = decode_models(body).data or []
        return [ModelInfo(model.id, _seconds(model.created_at), self.name) for model in found]


def _seconds(moment: str | None) -> int:
    """An ISO time as a Unix time; 0 if it is unknown."""
    try:
        return int(datetime.fromisoformat(moment or "").timestamp())
    except ValueError:
        return 0


_ASKED = Support("emulated", "it is described in the prompt; the answer is checked and repaired")
_DOES_NOT_THINK = Support("unsupported", "the model does not think before it answers")


def message_features(quirks: Quirks, traits: Traits) -> Features:
    """Every feature."""
    forced = NATIVE if traits.forced else _ASKED
    thinks = NATIVE if traits.thinking is not None else _DOES_NOT_THINK
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE,
        "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
        "grammars": Support(
            "emulated",
            "the grammar is described to the model; its input is checked, and requested again if it is wrong",
        ),
        "constrained_text": Support("unsupported", "the API takes no grammars"),
        "parallel_tool_calls": NATIVE,
        "single_tool_calls": NATIVE,
        "tool_choice_required": forced,
        "tool_choice_named": forced,
        "structured_output": NATIVE if traits.schemas else _ASKED,
        "json_mode": _ASKED,
        "reasoning": thinks,
        "reasoning_effort": thinks,
        "reasoning_replay": thinks,
        "images": NATIVE,
        "files": NATIVE,
        "audio": Support("unsupported", "the API does not take sound"),
        "logprobs": Support("unsupported", "the API does not send them"),
        "prompt_caching": NATIVE
        if quirks.prompt_cache == "automatic"
        else Support("native", "only at the breakpoints that the caller sets"),
    }
    return features
