"""`HttpBackend`: the base of all dialects over HTTP.

A dialect adds the translation of a turn (`translate`), a reader of payloads (in its `Call`), a parser of the
list of models, and class attributes. A turn that is streamed to the client requests a stream from the
upstream, all others request one JSON body. The media type of the response determines how it is read.
"""

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import msgspec
from msgspec import Struct

from antiphon.backends.base import ModelInfo
from antiphon.backends.context_window import read_windows
from antiphon.backends.features import Features
from antiphon.backends.image_support import read_images
from antiphon.backends.model_reports import ReportCache
from antiphon.backends.payload import Payload
from antiphon.backends.registry import Endpoint, ImageSource, WindowSource, endpoint_kind
from antiphon.backends.sliced_json import LARGE_REQUEST_BYTES
from antiphon.backends.stream_reader import DECODE_ERRORS
from antiphon.backends.streamed_turn import Reader, StreamedTurn
from antiphon.backends.upstream_errors import ErrorTable
from antiphon.errors import BackendBroken, BackendError
from antiphon.http.client import JSON, HttpClient
from antiphon.http.egress import ALLOW_CONFIGURED, EgressPolicy
from antiphon.http.exchange import Chance, fetch
from antiphon.turn.context import TurnRequest

logger = logging.getLogger(__name__)

MODELS_TIMEOUT_SECONDS = 10.0
REPORT_TIMEOUT_SECONDS = 2.0
"""For each source. A server that hangs must not delay a list of models for long."""


class Call(Struct, frozen=True):
    """A translated turn: the path, the body, and the reader of the answer."""

    path: str
    payload: Payload
    new_reader: Callable[[], Reader]


class HttpBackend(ABC):
    """One endpoint, and the connections to it."""

    api_key_header: ClassVar[str] = "authorization"
    api_key_prefix: ClassVar[str] = "Bearer "
    headers: ClassVar[Mapping[str, str]] = {}
    """Sent with every request, besides those of the endpoint."""
    models_path: ClassVar[str] = "models"
    models_format: ClassVar[str] = "OpenAI's"
    errors: ClassVar[ErrorTable]

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        chance: Chance = random.random,
        egress: EgressPolicy = ALLOW_CONFIGURED,
    ) -> None:
        headers = {"content-type": JSON, **self.headers}
        if endpoint.api_key:
            headers[self.api_key_header] = f"{self.api_key_prefix}{endpoint.api_key}"
        self.endpoint = endpoint
        self._client = HttpClient(
            endpoint.target(headers), partial(self.errors.refusal, endpoint), egress=egress
        )
        kind = endpoint_kind(endpoint.kind)
        self._windows = ReportCache(kind.windows, self._fetch_report, read_windows)
        self._images = ReportCache(kind.images, self._fetch_report, read_images)
        self._chance = chance

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def natives(self) -> frozenset[str]:
        return self.endpoint.natives

    @abstractmethod
    def features(self, model: str) -> Features: ...

    @abstractmethod
    def translate(self, turn: TurnRequest) -> Call:
        """Translate a turn. Raises `Unsupported` or `InvalidRequest`. No I/O."""

    @abstractmethod
    def read_models(self, body: bytes) -> list[ModelInfo]:
        """The models in a list of this dialect; raises `DECODE_ERRORS`."""

    def path(self, path: str) -> str:
        """Where `path` of the dialect is, below the base URL."""
        return path

    def prepare(self, turn: TurnRequest) -> StreamedTurn:
        call, endpoint = self.translate(turn), self.endpoint
        deadlines = endpoint.deadlines
        prepared = StreamedTurn(
            self._client,
            self.path(call.path),
            call.payload,
            call.new_reader,
            first_byte=deadlines.first_byte if turn.streamed else deadlines.answer,
            max_event_bytes=endpoint.max_event_bytes,
            is_large=turn.input_bytes > LARGE_REQUEST_BYTES,
            chance=self._chance,
        )
        prepared.trace = turn.trace
        return prepared

    async def models(self) -> Sequence[ModelInfo]:
        request = self._client.request("GET", self.path(self.models_path))
        body = await fetch(self._client, request, MODELS_TIMEOUT_SECONDS)
        try:
            return self.read_models(body)
        except DECODE_ERRORS:
            message = f"The upstream '{self.name}' does not list its models in {self.models_format} format."
            raise BackendBroken(message) from None

    async def context_window(self, model: str) -> int | None:
        return await self._windows.get(model)

    async def aclose(self) -> None:
        await self._windows.aclose()
        await self._images.aclose()
        self._client.close()

    @property
    def images_assumed(self) -> bool:
        return endpoint_kind(self.endpoint.kind).images_assumed

    async def takes_images(self, model: str) -> bool | None:
        return await self._images.get(model)

    async def _fetch_report(self, source: WindowSource | ImageSource, model: str) -> bytes | None:
        """What a server reports of its models at one place, or None. Never an error."""
        if source.form == "show":
            question = msgspec.json.encode({"model": model})
            request = self._client.request("POST", self.path(source.path), question)
        else:
            request = self._client.request("GET", self.path(source.path))
        try:
            async with asyncio.timeout(REPORT_TIMEOUT_SECONDS):
                return await fetch(self._client, request, REPORT_TIMEOUT_SECONDS)
        except (BackendError, TimeoutError) as error:
            logger.debug("%s reports nothing at %s: %r", self.name, source.path, error)
            return None
