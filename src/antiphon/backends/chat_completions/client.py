"""`ChatCompletionsBackend`: runs turns on an OpenAI-compatible endpoint."""

from functools import partial

from antiphon.backends.base import ModelInfo
from antiphon.backends.chat_completions.errors import ERRORS
from antiphon.backends.chat_completions.features import chat_features
from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.chat_completions.wire import decode_models
from antiphon.backends.features import Features
from antiphon.backends.http_backend import Call, HttpBackend
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
