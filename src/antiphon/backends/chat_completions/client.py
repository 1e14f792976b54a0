"""`ChatCompletionsBackend`: runs turns on an OpenAI-compatible endpoint.

When somebody watches, the upstream is asked for a stream; when nobody does, for one JSON body, which costs a
quarter of it and makes the same chunks. What comes is read as what it says it is, whatever was asked for.
"""

import random
from collections.abc import Sequence
from functools import partial

import msgspec

from antiphon.backends.base import ModelInfo
from antiphon.backends.chat_completions.context_window import ask_for_window
from antiphon.backends.chat_completions.errors import refusal
from antiphon.backends.chat_completions.features import chat_features
from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.chat_completions.wire import DECODE_ERRORS, decode_models
from antiphon.backends.context_window import WindowCache
from antiphon.backends.exchange import Chance, Exchange, fetch
from antiphon.backends.features import FUNCTIONS, Features
from antiphon.backends.http import Upstream
from antiphon.backends.registry import Endpoint, endpoint_kind
from antiphon.backends.streamed_turn import StreamedTurn
from antiphon.errors import BackendBroken
from antiphon.turn.context import TurnRequest

MODELS_PATIENCE = 10.0


class ChatCompletionsBackend:
    """One endpoint, and the connections to it."""

    def __init__(self, endpoint: Endpoint, *, chance: Chance = random.random) -> None:
        headers = {"content-type": "application/json"}
        if endpoint.api_key:
            headers["authorization"] = f"Bearer {endpoint.api_key}"
        self._endpoint = endpoint
        self._upstream = Upstream(endpoint, refusal, headers=headers)
        windows = endpoint_kind(endpoint.kind).windows
        self._windows = WindowCache(windows, partial(ask_for_window, self._upstream))
        self._chance = chance

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self._endpoint.name

    @property
    def natives(self) -> frozenset[str]:
        """Functions only."""
        return FUNCTIONS

    def features(self, model: str) -> Features:
        """As the row of the endpoint has it."""
        return chat_features(self._endpoint.quirks)

    async def context_window(self, model: str) -> int | None:
        """As the endpoint tells it, wherever its row says that it does."""
        return await self._windows.get(model)

    def prepare(self, turn: TurnRequest) -> StreamedTurn:
        """Translate a turn for this endpoint."""
        payload = build_payload(turn, self._endpoint.quirks)
        deadlines = self._endpoint.deadlines
        patience = deadlines.first_byte if turn.streamed else deadlines.answer

        def send() -> Exchange:
            return Exchange(
                self._upstream,
                self._upstream.request("POST", "chat/completions", msgspec.json.encode(payload.body)),
                patience=patience,
                retries=self._endpoint.retries,
                chance=self._chance,
            )

        return StreamedTurn(
            send,
            lambda: StreamReader(self._endpoint),
            max_event_bytes=self._endpoint.max_event_bytes,
            downgrades=payload.downgrades,
            unenforced=payload.unenforced,
        )

    async def models(self) -> Sequence[ModelInfo]:
        """What ``GET /models`` says."""
        body = await fetch(self._upstream, self._upstream.request("GET", "models"), MODELS_PATIENCE)
        try:
            found = decode_models(body).data or []
        except DECODE_ERRORS:
            message = f"The upstream '{self.name}' does not tell its models in OpenAI's format."
            raise BackendBroken(message) from None
        return [ModelInfo(model.id, model.created or 0, model.owned_by or self.name) for model in found]

    async def aclose(self) -> None:
        """Cut all connections."""
        await self._windows.aclose()
        self._upstream.pool.close()
