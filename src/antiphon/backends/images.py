"""`ImageClient`: a model of a server that has ``/v1/images/generations``."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.errors import BackendBroken, BackendRefused
from antiphon.http.client import EVENT_STREAM, HttpClient
from antiphon.http.exchange import HEARTBEAT, Exchange
from antiphon.http.redact import redact
from antiphon.protocol.sse import LineTooLong, SseReader

PATH = "images/generations"
MAX_IMAGE_BASE64_BYTES = 24 * 1024 * 1024
"""Of one image; a larger one is refused, because the response is stored with it."""
MAX_EVENT_BYTES = MAX_IMAGE_BASE64_BYTES + 64 * 1024
_FORMAT_STATUSES = frozenset({400, 422})
"""With these, a server may refuse a parameter such as `response_format`."""


class ImageRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An image to make. Parameters that are not given are left to the server."""

    prompt: str
    size: str | UnsetType = UNSET
    quality: str | UnsetType = UNSET
    background: str | UnsetType = UNSET
    output_format: str | UnsetType = UNSET
    output_compression: int | UnsetType = UNSET
    moderation: str | UnsetType = UNSET


class Image(Struct, frozen=True, kw_only=True):
    """An image in base64, and what the server says about it."""

    data: str
    revised_prompt: str | UnsetType = UNSET
    size: str | UnsetType = UNSET
    quality: str | UnsetType = UNSET
    background: str | UnsetType = UNSET
    output_format: str | UnsetType = UNSET


class PartialImage(Struct, frozen=True):
    """An unfinished form of an image, in base64; the first one has the index 0."""

    index: int
    data: str


class ImageMaker(Protocol):
    """An image model of an upstream."""

    def refused(self, wanted: ImageRequest) -> str:
        """The first parameter with a value that the model does not support; empty if there is none."""
        ...

    def make(
        self, wanted: ImageRequest, partial_images: int = 0
    ) -> AsyncGenerator[PartialImage | Image, None]:
        """Make one image: at most `partial_images` previews, then the image. The request is sent once: a
        second attempt may cost a second image."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class _Body(ImageRequest, frozen=True, omit_defaults=True, kw_only=True):
    model: str
    response_format: str | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    partial_images: int | UnsetType = UNSET


class _Made(Struct, frozen=True):
    b64_json: str | None = None
    revised_prompt: str | None = None


class _Parameters(Struct, frozen=True):
    size: str | None = None
    quality: str | None = None
    background: str | None = None
    output_format: str | None = None


class _Answer(_Parameters, frozen=True):
    data: list[_Made] = []


class _Event(_Parameters, frozen=True):
    type: str = ""
    partial_image_index: int = 0
    b64_json: str | None = None
    revised_prompt: str | None = None
    error: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Answer).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class ImageClient:
    """The model that the server of this client calls `model`."""

    def __init__(self, client: HttpClient, model: str) -> None:
        self._client = client
        self.model = model
        self._asks_base64 = True
        """False after the server has refused the parameter; such servers always answer in base64."""
        self._streams = True
        """False after the server has refused a stream: it sends complete images only."""

    def refused(self, wanted: ImageRequest) -> str:
        """The server decides about all parameters."""
        return ""

    async def make(
        self, wanted: ImageRequest, partial_images: int = 0
    ) -> AsyncGenerator[PartialImage | Image, None]:
        """The image, after unfinished forms if the server streams."""
        while True:
            streamed = partial_images > 0 and self._streams
            body = _Body(
                **msgspec.structs.asdict(wanted),
                model=self.model,
                response_format="b64_json" if self._asks_base64 else UNSET,
                stream=True if streamed else UNSET,
                partial_images=partial_images if streamed else UNSET,
            )
            try:
                async with aclosing(self._request(body, partial_images)) as images:
                    async for image in images:
                        yield image
                return
            except BackendRefused as error:
                if not self._can_do_without(error, streamed=streamed):
                    raise

    async def aclose(self) -> None:
        self._client.close()

    def _can_do_without(self, error: BackendRefused, *, streamed: bool) -> bool:
        """Whether the server has refused a parameter that it can do without; it is not sent again."""
        if error.status not in _FORMAT_STATUSES:
            return False
        if self._asks_base64 and "response_format" in error.message:
            self._asks_base64 = False
            return True
        if streamed and any(name in error.message for name in ("stream", "partial_images")):
            self._streams = False
            return True
        return False

    async def _request(self, body: _Body, partial_images: int) -> AsyncGenerator[PartialImage | Image, None]:
        client = self._client
        request = client.request("POST", PATH, msgspec.json.encode(body))
        exchange = Exchange(client, request, first_byte=client.target.deadlines.answer, retries=0)
        is_complete = False
        try:
            while not await exchange.opened():
                pass
            if exchange.media_type == EVENT_STREAM:
                async with aclosing(_payloads(exchange)) as payloads:
                    async for payload in payloads:
                        image = self._read_event(payload)
                        if isinstance(image, Image):
                            is_complete = True
                            yield image
                            return
                        if image is not None and partial_images:
                            partial_images -= 1
                            yield image
                raise self._broken("the stream ended before the image")
            while (received := await exchange.body()) is None:
                pass
            is_complete = True
            yield self._read_answer(received)
        finally:
            exchange.close(complete=is_complete)

    def _read_answer(self, received: bytes) -> Image:
        try:
            answer = _decode(received)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._broken(str(error)) from None
        made = answer.data[0] if answer.data else _Made()
        return self._image(made.b64_json, made.revised_prompt, answer)

    def _read_event(self, payload: bytes) -> PartialImage | Image | None:
        """The image of an event; None for an event without one. `[DONE]` ends the streams of some servers."""
        try:
            event = _decode_event(payload) if payload.strip() != b"[DONE]" else _Event()
        except (msgspec.DecodeError, ValueError) as error:
            raise self._broken(str(error)) from None
        if event.error is not None or event.type == "error":
            reason = str((event.error or {}).get("message") or "the server has failed")
            raise self._broken(redact(reason, self._client.target.secrets))
        if event.type.endswith(".partial_image") and event.b64_json:
            self._check_size(event.b64_json)
            return PartialImage(event.partial_image_index, event.b64_json)
        if event.type.endswith(".completed"):
            return self._image(event.b64_json, event.revised_prompt, event)
        return None

    def _image(self, data: str | None, revised_prompt: str | None, said: _Parameters) -> Image:
        if not data:
            raise self._broken("it has no image in base64")
        self._check_size(data)
        return Image(
            data=data,
            revised_prompt=revised_prompt or UNSET,
            size=said.size or UNSET,
            quality=said.quality or UNSET,
            background=said.background or UNSET,
            output_format=said.output_format or UNSET,
        )

    def _check_size(self, data: str) -> None:
        if len(data) > MAX_IMAGE_BASE64_BYTES:
            raise self._broken(f"the image has more than {MAX_IMAGE_BASE64_BYTES:,} bytes")

    def _broken(self, why: str) -> BackendBroken:
        name = self._client.target.name
        return BackendBroken(f"The upstream '{name}' did not answer with an image: {why}.")


async def _payloads(exchange: Exchange) -> AsyncGenerator[bytes, None]:
    """The data of the events of a stream."""
    sse = SseReader(MAX_EVENT_BYTES)
    try:
        while (data := await exchange.read()) is not None:
            for payload in sse.feed(data) if data != HEARTBEAT else ():
                exchange.progress(delivered=True)
                yield payload
    except LineTooLong:
        raise BackendBroken("The upstream sent an image beyond the size limit.") from None
    for payload in sse.finish():
        yield payload
