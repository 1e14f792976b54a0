"""`AnthropicMessagesBackend`: runs turns on a server that speaks Anthropic's Messages API.

When somebody watches, the upstream is asked for a stream; when nobody does, for one JSON body, which makes
the same chunks.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from datetime import datetime

import msgspec

from antiphon.backends.anthropic_messages.errors import refusal
from antiphon.backends.anthropic_messages.features import message_features
from antiphon.backends.anthropic_messages.models import traits_of
from antiphon.backends.anthropic_messages.request import build_payload
from antiphon.backends.anthropic_messages.stream import StreamReader
from antiphon.backends.anthropic_messages.thinking import wants_summary
from antiphon.backends.anthropic_messages.wire import DECODE_ERRORS, decode_models
from antiphon.backends.base import ModelInfo
from antiphon.backends.context_window import WindowCache
from antiphon.backends.exchange import Chance, Exchange, fetch
from antiphon.backends.features import Features
from antiphon.backends.http import Upstream
from antiphon.backends.registry import Endpoint, WindowSource, endpoint_kind
from antiphon.backends.streamed_turn import StreamedTurn
from antiphon.errors import BackendBroken, BackendError
from antiphon.turn.context import TurnRequest

logger = logging.getLogger(__name__)

VERSION = "2023-06-01"
MODELS_PATIENCE = 10.0
WINDOWS_PATIENCE = 2.0
# Below the server's root: the base URL ends before '/v1', as in the makers' SDKs; one with it is as good.
_MESSAGES = "/v1/messages"
_MODELS = "/v1/models?limit=1000"


class AnthropicMessagesBackend:
    """One endpoint, and the connections to it."""

    def __init__(self, endpoint: Endpoint, *, chance: Chance = random.random) -> None:
        headers = {"content-type": "application/json", "anthropic-version": VERSION}
        if endpoint.api_key:
            headers["x-api-key"] = endpoint.api_key
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
        """As the row has it: functions only."""
        return self._endpoint.natives

    def features(self, model: str) -> Features:
        """As the row of the endpoint has it."""
        return message_features(self._endpoint.quirks, traits_of(model))

    def prepare(self, turn: TurnRequest) -> StreamedTurn:
        """Translate a turn for this endpoint."""
        payload = build_payload(turn, self._endpoint)
        deadlines = self._endpoint.deadlines
        patience = deadlines.first_byte if turn.streamed else deadlines.answer

        def send() -> Exchange:
            request = self._upstream.request("POST", _MESSAGES, msgspec.json.encode(payload.body))
            return Exchange(
                self._upstream,
                _with_betas(request, payload.betas),
                patience=patience,
                retries=self._endpoint.retries,
                chance=self._chance,
            )

        return StreamedTurn(
            send,
            lambda: StreamReader(self._endpoint, summarised=wants_summary(turn.params)),
            max_event_bytes=self._endpoint.max_event_bytes,
            downgrades=payload.downgrades,
            unenforced=payload.unenforced,
        )

    async def models(self) -> Sequence[ModelInfo]:
        """What ``GET /v1/models`` says."""
        body = await fetch(self._upstream, self._upstream.request("GET", _MODELS), MODELS_PATIENCE)
        try:
            found = decode_models(body).data or []
        except DECODE_ERRORS:
            message = f"The upstream '{self.name}' does not tell its models in Anthropic's format."
            raise BackendBroken(message) from None
        return [ModelInfo(model.id, _seconds(model.created_at), self.name) for model in found]

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


def _with_betas(request: bytes, betas: Sequence[str]) -> bytes:
    """The request with the header that names what it uses ahead of its time."""
    if not betas:
        return request
    line, rest = request.split(b"\r\n", 1)
    return b"%b\r\nanthropic-beta: %b\r\n%b" % (line, ",".join(betas).encode(), rest)


def _seconds(moment: str | None) -> int:
    """A time as the API writes it; 0 if it is not known."""
    try:
        return int(datetime.fromisoformat(moment or "").timestamp())
    except ValueError:
        return 0
