"""Images of an upstream: the requests it gets, and answers without an image."""

from typing import Any

import pytest

from antiphon.backends.images import Image, ImageClient, ImageRequest, PartialImage
from antiphon.errors import BackendBroken, BackendRefused
from antiphon.settings import UpstreamSettings
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.embeddings import make_json_client
from tests.backends.image_server import PIXEL, run_image_server


async def made(client: ImageClient, wanted: ImageRequest) -> Image:
    *_, image = [image async for image in client.make(wanted)]
    assert isinstance(image, Image)
    return image


def connect(url: str) -> ImageClient:
    return ImageClient(make_json_client(make_endpoint(UpstreamSettings(base_url=url), 10.0)), "painter")


@pytest.mark.parametrize("takes_format", [True, False])
async def test_the_image_is_asked_for_in_base64_where_that_has_to_be_asked(takes_format: bool) -> None:
    async with run_image_server(takes_format=takes_format) as server:
        client = connect(server.url)
        for _ in range(2):
            image = await made(client, ImageRequest(prompt="a cat", size="1024x1024"))
            assert (image.data, image.revised_prompt, image.output_format) == (
                PIXEL,
                "A photo of a cat",
                "png",
            )
        await client.aclose()
        wanted = {"model": "painter", "prompt": "a cat", "size": "1024x1024"}
        in_base64 = {**wanted, "response_format": "b64_json"}
        expected = [in_base64, in_base64] if takes_format else [in_base64, wanted, wanted]
        assert server.requests == expected


async def test_a_failed_request_is_not_sent_again() -> None:
    async with run_image_server() as server:
        server.answers = [500]
        client = connect(server.url)
        with pytest.raises(BackendRefused, match="a storm"):
            await made(client, ImageRequest(prompt="a cat"))
        assert len(server.requests) == 1
        await client.aclose()


@pytest.mark.parametrize(
    "answer",
    [{}, {"data": []}, {"data": [{"url": "https://example.com"}]}, {"data": [{"b64_json": 1}]}, "no"],
)
async def test_an_answer_without_an_image_is_an_error(answer: Any) -> None:
    async with run_image_server() as server:
        server.answers = [answer]
        client = connect(server.url)
        with pytest.raises(BackendBroken, match="did not answer with an image"):
            await made(client, ImageRequest(prompt="a cat"))
        await client.aclose()


async def test_an_image_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.backends.images.MAX_IMAGE_BASE64_BYTES", len(PIXEL) - 1)
    async with run_image_server() as server:
        client = connect(server.url)
        with pytest.raises(BackendBroken, match="more than"):
            await made(client, ImageRequest(prompt="a cat"))
        await client.aclose()


@pytest.mark.requirement("HOSTED/image-partial")
async def test_a_stream_has_unfinished_forms_and_then_the_image() -> None:
    async with run_image_server(takes_format=False, streams=True) as server:
        client = connect(server.url)
        images = [image async for image in client.make(ImageRequest(prompt="a cat"), 2)]
        assert images == [
            PartialImage(0, "part0"),
            PartialImage(1, "part1"),
            Image(data=PIXEL, size="1024x1024", output_format="png"),
        ]
        assert server.requests[-1] == {
            "model": "painter",
            "prompt": "a cat",
            "stream": True,
            "partial_images": 2,
        }
        await client.aclose()


@pytest.mark.requirement("HOSTED/image-partial")
async def test_a_server_that_streams_no_images_is_asked_for_the_complete_one() -> None:
    async with run_image_server() as server:
        client = connect(server.url)
        for _ in range(2):
            images = [image async for image in client.make(ImageRequest(prompt="a cat"), 2)]
            assert [type(image) for image in images] == [Image]
        assert ["stream" in request for request in server.requests] == [True, False, False]
        await client.aclose()


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([{"type": "image_generation.partial_image", "b64_json": "part0"}], "ended before the image"),
        ([{"type": "error", "error": {"message": "a storm"}}], "a storm"),
        ([{"type": "image_generation.completed"}], "no image in base64"),
        ([3], "Expected"),
    ],
)
async def test_a_stream_without_an_image_is_an_error(events: list[Any], why: str) -> None:
    async with run_image_server(takes_format=False, streams=True) as server:
        server.events = events
        client = connect(server.url)
        with pytest.raises(BackendBroken, match=why):
            [image async for image in client.make(ImageRequest(prompt="a cat"), 2)]
        await client.aclose()
