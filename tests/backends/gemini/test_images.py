"""Images of Gemini: the request, the image in the answer, and answers without one."""

import json
from typing import Any

import pytest

from antiphon.backends.gemini.images import GeminiImageClient
from antiphon.backends.images import Image, ImageRequest
from antiphon.errors import AntiphonError
from antiphon.settings import UpstreamSettings
from antiphon.wiring.hosted_tools import make_image_model
from tests.backends.image_server import PIXEL
from tests.http.raw_upstream import RawUpstream, answering, complete_response, raw_upstream

IMAGE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}


def answer(*parts: dict[str, Any], reason: str = "STOP") -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}]}


def connect(site: RawUpstream) -> GeminiImageClient:
    row = UpstreamSettings(kind="gemini", base_url=site.url.removesuffix("/v1"), api_key="a-key-of-google")
    made = make_image_model(row, "painter", 10.0)
    assert isinstance(made, GeminiImageClient)
    return made


async def images(client: GeminiImageClient, **wanted: Any) -> list[object]:
    found: list[object] = [one async for one in client.make(ImageRequest(prompt="a cat", **wanted), 2)]
    await client.aclose()
    return found


@pytest.mark.requirement("HOSTED/image-gemini")
async def test_the_image_is_a_part_of_the_answer() -> None:
    thought = {"thought": True, "inlineData": {"mimeType": "image/png", "data": "draft"}}
    body = json.dumps(answer({"text": "Here it is."}, thought, IMAGE)).encode()
    async with raw_upstream(answering(complete_response(200, body))) as site:
        assert await images(connect(site), size="1024x1536") == [Image(data=PIXEL, output_format="png")]
        assert await images(connect(site)) == [Image(data=PIXEL, output_format="png")]
    first, second = site.wires
    assert first.head.startswith("POST /v1beta/models/painter:generateContent ")
    assert "x-goog-api-key: a-key-of-google" in first.head
    assert json.loads(first.body) == {
        "contents": [{"role": "user", "parts": [{"text": "a cat"}]}],
        "generationConfig": {
            "responseModalities": ["TEXT", "IMAGE"],
            "imageConfig": {"aspectRatio": "2:3"},
        },
    }
    assert "imageConfig" not in json.loads(second.body)["generationConfig"]


@pytest.mark.requirement("HOSTED/image-gemini")
@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, answer({"text": "I cannot."}), "it has no image"),
        (200, answer(reason="IMAGE_SAFETY"), "has refused the image: IMAGE_SAFETY"),
        (200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT"),
        (200, {}, "it has no image"),
        (200, {"candidates": 3}, "did not answer with an image"),
        (429, {"error": {"code": 429, "message": "a storm", "status": "RESOURCE_EXHAUSTED"}}, "a storm"),
    ],
)
async def test_an_answer_without_an_image_says_why(status: int, body: Any, why: str) -> None:
    async with raw_upstream(answering(complete_response(status, json.dumps(body).encode()))) as site:
        with pytest.raises(AntiphonError, match=why):
            await images(connect(site))
        assert len(site.wires) == 1


@pytest.mark.requirement("HOSTED/image-gemini")
@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        ({}, ""),
        ({"size": "auto", "quality": "auto"}, ""),
        ({"size": "1536x1024"}, ""),
        ({"size": "1000x1"}, "size"),
        ({"size": "large"}, "size"),
        ({"size": "0x0"}, "size"),
        ({"quality": "high"}, "quality"),
        ({"output_compression": 50}, "output_compression"),
    ],
)
async def test_what_the_api_has_no_place_for_is_refused(wanted: dict[str, Any], refused: str) -> None:
    async with raw_upstream(answering(b"")) as site:
        client = connect(site)
        assert client.refused(ImageRequest(prompt="", **wanted)) == refused
        await client.aclose()
