"""`ResponsesBackend`: runs turns on another server of the Responses API, which stores nothing of them."""

from functools import partial

from antiphon.backends.base import ModelInfo
from antiphon.backends.features import NATIVE, Feature, Features, Support
from antiphon.backends.files import TEXT_OF_FILES
from antiphon.backends.http_backend import Call, HttpBackend
from antiphon.backends.registry import Endpoint
from antiphon.backends.responses.errors import ERRORS
from antiphon.backends.responses.request import build_payload
from antiphon.backends.responses.stream import StreamReader
from antiphon.backends.responses.tools import names_of
from antiphon.backends.responses.wire import decode_models
from antiphon.turn.context import TurnRequest


class ResponsesBackend(HttpBackend):
    """The dialect of ``POST /responses``."""

    errors = ERRORS

    def features(self, model: str) -> Features:
        return response_features(self.endpoint)

    def translate(self, turn: TurnRequest) -> Call:
        payload = build_payload(turn, self.endpoint)
        names = names_of(turn, self.endpoint.natives)
        return Call("responses", payload, partial(StreamReader, self.endpoint, names))

    def read_models(self, body: bytes) -> list[ModelInfo]:
        found = decode_models(body).data or []
        return [ModelInfo(model.id, model.created or 0, model.owned_by or self.name) for model in found]


_PASSED = Support("native", "as far as the model behind that server has it")


def response_features(endpoint: Endpoint) -> Features:
    """Every feature, for an endpoint with these quirks."""
    quirks, custom = endpoint.quirks, "custom" in endpoint.natives
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE,
        "custom_tools": NATIVE
        if custom
        else Support("emulated", "shown to the model as functions with one text parameter"),
        "grammars": NATIVE
        if custom
        else Support(
            "emulated",
            "the grammar is described to the model; its input is checked, and requested again if it is wrong",
        ),
        "constrained_text": Support("unsupported", "the dialect has no field for it"),
        "parallel_tool_calls": NATIVE,
        "single_tool_calls": NATIVE,
        "tool_choice_required": NATIVE,
        "tool_choice_named": NATIVE
        if quirks.tool_choice == "named"
        else Support("emulated", "no other tool is shown"),
        "structured_output": NATIVE,
        "json_mode": NATIVE,
        "reasoning": NATIVE,
        "reasoning_effort": NATIVE,
        "reasoning_replay": NATIVE,
        "images": _PASSED,
        "files": _PASSED if quirks.files else Support("emulated", TEXT_OF_FILES),
        "audio": _PASSED if quirks.audio else Support("unsupported", "the server does not take sound"),
        "logprobs": _PASSED,
        "prompt_caching": NATIVE
        if quirks.prompt_cache
        else Support("unsupported", "breakpoints may not be understood"),
    }
    return features
