"""`GeminiBackend`: runs turns on a server that speaks Google's ``generateContent``.

When somebody watches, the upstream is asked for a stream; when nobody does, for one JSON body, which makes
the same chunks.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

import msgspec

from antiphon.backends.base import ModelInfo
from antiphon.backends.context_window import WindowCache
from antiphon.backends.exchange import Chance, Exchange, fetch
from antiphon.backends.features import Features
from antiphon.backends.gemini.errors import refusal
from antiphon.backends.gemini.features import gemini_features
from antiphon.backends.gemini.models import traits_of
from antiphon.backends.gemini.request import build_payload
from antiphon.backends.gemini.stream import StreamReader
from antiphon.backends.gemini.wire import DECODE_ERRORS, ModelWire, decode_models
from antiphon.backends.http import Upstream
from antiphon.backends.registry import Endpoint, WindowSource, endpoint_kind
from antiphon.backends.streamed_turn import StreamedTurn
from antiphon.errors import BackendBroken, BackendError, ModelNotFound
from antiphon.turn.context import TurnRequest

logger = logging.getLogger(__name__)

MODELS_PATIENCE = 10.0
WINDOWS_PATIENCE = 2.0
VERSION = "v1beta"
"""Of the API, for a base URL that does not name one."""
_MODELS = "models?pageSize=1000"
_FOLDER = "models/"
_FOLDERS = (_FOLDER, "tunedModels/", "publishers/", "endpoints/", "projects/")
"""How names of models begin that say where they are; all others are in the first of these."""
_METHODS = {True: "streamGenerateContent?alt=sse", False: "generateContent"}


class GeminiBackend:
    """One endpoint, and the connections to it."""

    def __init__(self, endpoint: Endpoint, *, chance: Chance = random.random) -> None:
        headers = {"content-type": "application/json"}
        if endpoint.api_key:
            headers["x-goog-api-key"] = endpoint.api_key
        self._endpoint = endpoint
        self._upstream = Upstream(endpoint, refusal, headers=headers)
        self._root = "" if urlsplit(endpoint.base_url).path.strip("/") else f"{VERSION}/"
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
        """The same for every endpoint: in what they differ is a matter of their models."""
        return gemini_features(traits_of(model))

    def prepare(self, turn: TurnRequest) -> StreamedTurn:
        """Translate a turn for this endpoint."""
        payload = build_payload(turn, self._endpoint)
        path = f"{self._root}{model_path(turn.model)}:{_METHODS[turn.streamed]}"
        deadlines = self._endpoint.deadlines
        patience = deadlines.first_byte if turn.streamed else deadlines.answer
        names = {wire: name for name, wire in payload.names.items()}

        def send() -> Exchange:
            return Exchange(
                self._upstream,
                self._upstream.request("POST", path, msgspec.json.encode(payload.body)),
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
        """What ``GET models`` says, as far as it generates content."""
        request = self._upstream.request("GET", self._root + _MODELS)
        body = await fetch(self._upstream, request, MODELS_PATIENCE)
        try:
            told = decode_models(body)
        except DECODE_ERRORS:
            message = f"The upstream '{self.name}' does not tell its models in Google's format."
            raise BackendBroken(message) from None
        found = told.models or told.publisher_models or []
        return [ModelInfo(_short(model.name), 0, self.name) for model in found if _generates(model)]

    async def context_window(self, model: str) -> int | None:
        """As the endpoint tells it, wherever its row says that it does."""
        return await self._windows.get(model if model.startswith(_FOLDERS) else _FOLDER + model)

    async def aclose(self) -> None:
        """Cut all connections."""
        await self._windows.aclose()
        self._upstream.pool.close()

    async def _ask_for_windows(self, source: WindowSource, _model: str) -> bytes | None:
        """What the endpoint says there; None if it says nothing. Never an error."""
        try:
            async with asyncio.timeout(WINDOWS_PATIENCE):
                request = self._upstream.request("GET", self._root + source.path)
                return await fetch(self._upstream, request, WINDOWS_PATIENCE)
        except (BackendError, TimeoutError) as error:
            logger.debug("%s does not tell context windows at %s: %r", self.name, source.path, error)
            return None


def model_path(model: str) -> str:
    """Where a model is, below the base URL. The name may be the caller's own: it leads nowhere else."""
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
