"""`ResponsesBackend`: runs turns on another server of the Responses API, which stores nothing of them."""

from functools import partial

from antiphon.backends.base import ModelInfo
from antiphon.backends.features import Features
from antiphon.backends.http_backend import Call, HttpBackend
from antiphon.backends.responses.errors import ERRORS
from antiphon.backends.responses.features import response_features
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
