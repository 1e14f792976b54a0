"""`GeminiImageClient`: an image model that answers ``generateContent`` with an image."""

from collections.abc import AsyncGenerator
from functools import partial
from math import gcd
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from antiphon.backends.gemini.client import VERSION, GeminiBackend, has_version, model_path
from antiphon.backends.gemini.errors import ERRORS
from antiphon.backends.images import MAX_IMAGE_BASE64_BYTES, Image, ImageRequest, PartialImage
from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendBroken, BackendRefused
from antiphon.http.client import JSON, HttpClient
from antiphon.http.exchange import fetch

_RATIOS = frozenset({"1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"})
_NOT_TAKEN = ("quality", "background", "output_format", "output_compression", "moderation")


class _InlineData(Struct, frozen=True, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _Part(Struct, frozen=True, rename="camel"):
    inline_data: _InlineData | None = None
    thought: bool = False


class _Content(Struct, frozen=True):
    parts: list[_Part] = []


class _Candidate(Struct, frozen=True, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Feedback(Struct, frozen=True, rename="camel"):
    block_reason: str | None = None


class _Answer(Struct, frozen=True, rename="camel"):
    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class GeminiImageClient:
    """Implements `ImageMaker` for a model of Google's API."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        headers = {"content-type": JSON}
        if endpoint.api_key:
            headers[GeminiBackend.api_key_header] = endpoint.api_key
        target = endpoint.target(headers)
        self._client = HttpClient(target, partial(ERRORS.refusal, endpoint))
        self._path = f"{model_path(model)}:generateContent"
        if not has_version(endpoint.base_url):
            self._path = f"{VERSION}/{self._path}"

    def refused(self, wanted: ImageRequest) -> str:
        if wanted.size and wanted.size != "auto" and _ratio(wanted.size) not in _RATIOS:
            return "size"
        return next((name for name in _NOT_TAKEN if getattr(wanted, name) not in (UNSET, "auto")), "")

    async def make(
        self, wanted: ImageRequest, partial_images: int = 0
    ) -> AsyncGenerator[PartialImage | Image, None]:
        """The image. The API has no unfinished forms."""
        config: dict[str, Any] = {"responseModalities": ["TEXT", "IMAGE"]}
        if wanted.size and wanted.size != "auto":
            config["imageConfig"] = {"aspectRatio": _ratio(wanted.size)}
        body = {
            "contents": [{"role": "user", "parts": [{"text": wanted.prompt}]}],
            "generationConfig": config,
        }
        request = self._client.request("POST", self._path, msgspec.json.encode(body))
        received = await fetch(self._client, request, self._client.target.deadlines.answer)
        try:
            answer = _decode(received)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._broken(str(error)) from None
        yield self._image(answer)

    async def aclose(self) -> None:
        self._client.close()

    def _image(self, answer: _Answer) -> Image:
        candidate = answer.candidates[0] if answer.candidates else _Candidate()
        parts = candidate.content.parts if candidate.content is not None else []
        found = [part.inline_data for part in parts if part.inline_data is not None and not part.thought]
        image = next((one for one in found if one.data), None)
        if image is None:
            feedback = answer.prompt_feedback or _Feedback()
            reason = feedback.block_reason or candidate.finish_reason
            if reason and reason != "STOP":
                message = f"The upstream '{self._client.target.name}' has refused the image: {reason[:100]}."
                raise BackendRefused(message, status=400)
            raise self._broken("it has no image")
        if len(image.data) > MAX_IMAGE_BASE64_BYTES:
            raise self._broken(f"the image has more than {MAX_IMAGE_BASE64_BYTES:,} bytes")
        kind = image.mime_type.removeprefix("image/")
        return Image(data=image.data, output_format=kind if kind in ("png", "jpeg", "webp") else UNSET)

    def _broken(self, why: str) -> BackendBroken:
        name = self._client.target.name
        return BackendBroken(f"The upstream '{name}' did not answer with an image: {why}.")


def _ratio(size: str) -> str:
    """The ratio of a size such as `1024x1536`; empty if it is none."""
    width, _, height = size.partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width[:9]) and int(height[:9])):
        return ""
    divisor = gcd(int(width[:9]), int(height[:9]))
    return f"{int(width[:9]) // divisor}:{int(height[:9]) // divisor}"
