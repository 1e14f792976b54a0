"""`ChatCompletionsBackend`: runs turns on an OpenAI-compatible endpoint."""

from functools import partial

from antiphon.backends.base import ModelInfo
from antiphon.backends.chat_completions.errors import ERRORS
from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.chat_completions.wire import decode_models
from antiphon.backends.features import NATIVE, Feature, Features, Support
from antiphon.backends.files import TEXT_OF_FILES
from antiphon.backends.http_backend import Call, HttpBackend
from antiphon.backends.registry import Quirks
from antiphon.turn.context import TurnRequest


class ChatCompletionsBackend(HttpBackend):
    """The dialect of ``POST /chat/completions``."""

    errors = ERRORS

    def features(self, model: str) -> Features:
        return chat_features(self.endpoint.quirks)

    def translate(self, turn: TurnRequest) -> Call:
        payload = build_payload(turn, self.endpoint.quirks)
        return Call("chat/completions", payload, partial(StreamReader, self.endpoint))

    def read_models(self, body: bytes) -> list[ModelInfo]:
        found = decode_models(body).data or []
        return [ModelInfo(model.id, model.created or 0, model.owned_by or self.name) for model in found]


_CHECKED = Support(
    "emulated",
    "the grammar is described to the model; its input is checked, and requested again if it is wrong",
)
_READ = Support("emulated", "described in the prompt, and read there")
_PROMPT = "it is described in the prompt; the answer is checked and repaired"
_DATA_ONLY = Support("native", "as data: URLs only")
_AS_FUNCTION = Support("emulated", "shown to the model as functions with one text parameter")


def chat_features(quirks: Quirks) -> Features:
    """Every feature, for an endpoint with these quirks."""
    shown = quirks.tools == "sent"
    choice = quirks.tool_choice if shown else "asked"
    asked = Support("emulated", _PROMPT)
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE if shown else _READ,
        "custom_tools": _AS_FUNCTION,
        "grammars": _CHECKED,
        "constrained_text": _native(quirks.grammars, "the server takes no grammars"),
        "parallel_tool_calls": NATIVE if shown else _READ,
        "single_tool_calls": _native(quirks.parallel_tool_calls, "the server does not take the parameter")
        if shown
        else Support("emulated", "it is asked for in the prompt"),
        "tool_choice_required": asked if choice == "asked" else NATIVE,
        "tool_choice_named": NATIVE
        if choice == "named"
        else Support("emulated", "no other tool is shown")
        if choice == "required"
        else asked,
        "structured_output": NATIVE if quirks.json_schema else asked,
        "json_mode": NATIVE if quirks.json_object or quirks.json_schema else asked,
        "reasoning": NATIVE,
        "reasoning_effort": _native(bool(quirks.efforts), "the server does not take it"),
        "reasoning_replay": _native(quirks.replay_reasoning is not None, "the server does not take it back"),
        "images": _DATA_ONLY
        if quirks.images == "data"
        else _native(quirks.images is not None, "the server does not take images"),
        "files": Support("emulated", TEXT_OF_FILES) if quirks.files is None else NATIVE,
        "audio": _native(quirks.audio, "the server does not take sound"),
        "logprobs": _native(quirks.logprobs, "the server does not send them"),
        "prompt_caching": Support("unsupported", "the dialect has no field for breakpoints"),
    }
    return features


def _native(served: bool, why: str) -> Support:
    return NATIVE if served else Support("unsupported", why)
