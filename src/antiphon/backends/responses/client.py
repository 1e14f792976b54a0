"""`ResponsesBackend`: runs turns on another server of the Responses API.

When somebody watches, the upstream is asked for a stream; when nobody does, for one JSON body, which makes
the same chunks. Nothing is kept there.
"""

import asyncio
import logging
import random
from collections.abc import Sequence

import msgspec

from antiphon.backends.base import ModelInfo
from antiphon.backends.context_window import WindowCache
from antiphon.backends.exchange import Chance, Exchange, fetch
from antiphon.backends.features import Features
from antiphon.backends.http import Upstream
from antiphon.backends.registry import Endpoint, WindowSource, endpoint_kind
from antiphon.backends.responses.errors import refusal
from antiphon.backends.responses.features import response_features
from antiphon.backends.responses.request import build_payload
from antiphon.backends.responses.stream import StreamReader
from antiphon.backends.responses.tools import names_of
from antiphon.backends.responses.wire import DECODE_ERRORS, decode_models
from antiphon.backends.streamed_turn import StreamedTurn
from antiphon.errors import BackendBroken, BackendError
from antiphon.turn.context import TurnRequest

logger = logging.getLogger(__name__)

MODELS_PATIENCE = 10.0
WINDOWS_PATIENCE = 2.0


class ResponsesBackend:
    """One endpoint, and the connections to it."""

    def __init__(self, endpoint: Endpoint, *, chance: Chance = random.random) -> None:
        headers = {"content-type": "application/json"}
        if endpoint.api_key:
            headers["authorization"] = f"Bearer {endpoint.api_key}"
        self._endpoint = endpoint
        self._upstream = Upstream(endpoint, refusal, headers=headers)
        self._windows = WindowCache(endpoint_kind(endpoint.kind).windows, self._ask_for_windows)
        self._chance = chance

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self._endpoint.name

    @property
    def natives(self) -> frozenset[str]:
        """As the row has it."""
        return self._endpoint.natives

    def features(self, model: str) -> Features:
        """As the row of the endpoint has it."""
        return response_features(self._endpoint)

    def prepare(self, turn: TurnRequest) -> StreamedTurn:
        """Translate a turn for this endpoint."""
        payload = build_payload(turn, self._endpoint)
        names = names_of(turn, self._endpoint.natives)
        deadlines = self._endpoint.deadlines
        patience = deadlines.first_byte if turn.streamed else deadlines.answer

        def send() -> Exchange:
            return Exchange(
                self._upstream,
                self._upstream.request("POST", "responses", msgspec.json.encode(payload.body)),
                patience=patience,
                retries=self._endpoint.retries,
                chance=self._chance,
            )

        return StreamedTurn(
            send,
            lambda: StreamReader(self._endpoint, names),
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

    async def context_window(self, model: str) -> int | None:
        """As the endpoint tells it, wherever its row says that it does."""
        return await self._windows.get(model)

    async def aclose(self) -> None:
        """Cut all connections."""
        await self._windows.aclose()
        self._upstream.pool.close()

    async def _ask_for_windows(self, source: WindowSource, _model: str) -> bytes | None:
        """What the endpoint says there; None if it says nothing. Never an error."""
        try:
            async with asyncio.timeout(WINDOWS_PATIENCE):
                request = self._upstream.request("GET", source.path)
                return await fetch(self._upstream, request, WINDOWS_PATIENCE)
        except (BackendError, TimeoutError) as error:
            logger.debug("%s does not tell context windows at %s: %r", self.name, source.path, error)
            return None
