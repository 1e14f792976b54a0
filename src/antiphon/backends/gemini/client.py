"""`GeminiBackend`: runs turns on a server that speaks Google's ``generateContent``."""

from functools import partial
from urllib.parse import quote, urlsplit

from antiphon.backends.base import ModelInfo
from antiphon.backends.features import NATIVE, Feature, Features, Support
from antiphon.backends.gemini.errors import ERRORS
from antiphon.backends.gemini.models import Traits, traits_of
from antiphon.backends.gemini.request import build_payload
from antiphon.backends.gemini.stream import StreamReader
from antiphon.backends.gemini.wire import ModelWire, decode_models
from antiphon.backends.http_backend import Call, HttpBackend
from antiphon.errors import ModelNotFound
from antiphon.turn.context import TurnRequest

VERSION = "v1beta"
"""The version of the API, for a base URL without one."""
_FOLDER = "models/"
_FOLDERS = (_FOLDER, "tunedModels/", "publishers/", "endpoints/", "projects/")
"""Prefixes of model names that are paths; all other names are in the first folder."""
_METHODS = {True: "streamGenerateContent?alt=sse", False: "generateContent"}


class GeminiBackend(HttpBackend):
    """The dialect of ``POST /models/MODEL:generateContent``."""

    api_key_header = "x-goog-api-key"
    api_key_prefix = ""
    models_path = "models?pageSize=1000"
    models_format = "Google's"
    errors = ERRORS

    def path(self, path: str) -> str:
        return path if has_version(self.endpoint.base_url) else f"{VERSION}/{path}"

    def features(self, model: str) -> Features:
        return gemini_features(traits_of(model))

    def translate(self, turn: TurnRequest) -> Call:
        payload = build_payload(turn, self.endpoint)
        names = {wire: name for name, wire in payload.names.items()}
        path = f"{model_path(turn.model)}:{_METHODS[turn.streamed]}"
        return Call(path, payload, partial(StreamReader, self.endpoint, names))

    def read_models(self, body: bytes) -> list[ModelInfo]:
        wire = decode_models(body)
        found = wire.models or wire.publisher_models or []
        return [ModelInfo(_short(model.name), 0, self.name) for model in found if _generates(model)]

    async def context_window(self, model: str) -> int | None:
        return await super().context_window(model if model.startswith(_FOLDERS) else _FOLDER + model)


def has_version(base_url: str) -> bool:
    """Whether the base URL has a path: then it has the version of the API."""
    return bool(urlsplit(base_url).path.strip("/"))


def model_path(model: str) -> str:
    """The path of a model below the base URL. Raises for a name that would leave its folder."""
    steps = model.split("/") if model.startswith(_FOLDERS) else [_FOLDER.rstrip("/"), model]
    if any(step in ("", ".", "..") for step in steps):
        message = f"The model '{model}' does not exist."
        raise ModelNotFound(message)
    return "/".join(quote(step, safe="@") for step in steps)


def _short(name: str) -> str:
    return name.rpartition(_FOLDER)[2]


def _generates(model: ModelWire) -> bool:
    methods = model.supported_generation_methods
    return methods is None or "generateContent" in methods


_SUMMARIES = Support("native", "as summaries, on request: the API sends nothing else")
_DOES_NOT_THINK = Support("unsupported", "the model does not think before it answers")
_CHECKED = "the grammar is described to the model; its input is checked, and requested again if it is wrong"


def gemini_features(traits: Traits) -> Features:
    thinks = traits.thinking is not None
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE,
        "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
        "grammars": Support("emulated", _CHECKED),
        "constrained_text": Support("unsupported", "the API takes no grammars"),
        "parallel_tool_calls": NATIVE,
        "single_tool_calls": Support("unsupported", "the API cannot forbid several calls at once"),
        "tool_choice_required": NATIVE,
        "tool_choice_named": NATIVE,
        "structured_output": NATIVE
        if traits.json_with_tools
        else Support("native", "with tools it is described in the prompt and checked"),
        "json_mode": NATIVE,
        "reasoning": _SUMMARIES if thinks else _DOES_NOT_THINK,
        "reasoning_effort": NATIVE if thinks else _DOES_NOT_THINK,
        "reasoning_replay": NATIVE,
        "images": NATIVE,
        "files": NATIVE,
        "audio": NATIVE,
        "logprobs": NATIVE
        if traits.logprobs
        else Support("unsupported", "the API sends none for models later than 2.5"),
        "prompt_caching": Support("unsupported", "the server caches by itself, and takes no breakpoints"),
    }
    return features
