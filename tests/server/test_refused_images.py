"""What a refusal of images teaches is shown by the list of models, for the model that it is about."""

from typing import Any

import pytest
from aiohttp import web
from openai import AsyncOpenAI, BadRequestError

from antiphon.embedded import Antiphon
from antiphon.settings import Settings, UpstreamSettings
from tests.cli.http_thread import serving

PICTURE: Any = [
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
        ],
    }
]


def text_only_server() -> web.Application:
    """As llama.cpp without a projector, but it reports nothing about its models."""

    async def complete(request: web.Request) -> web.Response:
        if "image_url" in await request.text():
            message = "image input is not supported - hint: if this is unexpected, provide the mmproj"
            return web.json_response({"error": {"message": message, "code": 500}}, status=500)
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    app = web.Application()
    app.router.add_post("/{root:.*}chat/completions", complete)
    return app


async def images(client: AsyncOpenAI, model: str) -> tuple[str, list[str]]:
    """How images are served, and what the catalogue of Codex says."""
    capabilities: Any = await client.get(f"/models/{model}/capabilities", cast_to=object)
    catalogue: Any = await client.get("/models?client_version=0.166.0", cast_to=object)
    modalities = {row["slug"]: row["input_modalities"] for row in catalogue["models"]}
    return capabilities["features"]["images"]["level"], modalities[model]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_shown_for_its_model_only(stream: bool) -> None:
    with serving(text_only_server()) as url:
        upstream = UpstreamSettings(kind="openai", base_url=url, api_key="k" * 20, models=("a", "b"))
        async with Antiphon(Settings(upstreams=(upstream,)), store="memory:") as antiphon:
            client = antiphon.openai_client()
            assert await images(client, "a") == ("native", ["text", "image"])
            for _ in range(10):  # none of them pauses the model
                with pytest.raises(BadRequestError) as caught:
                    await client.responses.create(model="a", input=PICTURE, stream=stream)
                assert (caught.value.code, caught.value.param) == ("unsupported_value", "input")
            assert await images(client, "a") == ("unsupported", ["text"])
            assert await images(client, "b") == ("native", ["text", "image"])
            answer = await client.responses.create(model="a", input="Hi")
            assert answer.output_text == "Hi"
