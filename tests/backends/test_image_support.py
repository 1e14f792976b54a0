"""Whether a model takes images: where servers say it, and what follows from a refusal."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.features import Support
from antiphon.backends.image_support import (
    NO_IMAGES,
    REFUSED_IMAGES,
    UNKNOWN_IMAGES,
    read_images,
)
from antiphon.backends.model_reports import value_of
from antiphon.backends.registry import ENDPOINTS, ImageSource, default_endpoint
from antiphon.errors import BackendError, BackendRefused
from antiphon.service.routing.circuits import Key
from antiphon.service.routing.refused_images import MAX_REMEMBERED_MODELS, REMEMBERED_SECONDS, RefusedImages
from antiphon.service.routing.router import Route, Router
from tests.cli.http_thread import serving

(SHOW,) = ENDPOINTS["ollama"].images
(PROPS,) = ENDPOINTS["llama.cpp"].images
STUDIO, OLD_STUDIO = ENDPOINTS["lm-studio"].images
(ROUTER,) = ENDPOINTS["openrouter"].images
REFUSAL = BackendRefused("image input is not supported", status=400, code="unsupported_value")


@pytest.mark.parametrize(
    ("source", "answer", "takes"),
    [
        (SHOW, {"capabilities": ["completion", "vision"]}, True),
        (SHOW, {"capabilities": ["completion"]}, False),
        (SHOW, {"details": {}}, None),
        (PROPS, {"modalities": {"vision": True, "audio": False}}, True),
        (PROPS, {"modalities": {"vision": False}}, False),
        (PROPS, {"modalities": []}, None),
        (STUDIO, {"models": [{"key": "m", "capabilities": {"vision": True}}]}, True),
        (STUDIO, {"models": [{"key": "n", "capabilities": {"vision": True}}]}, None),
        (OLD_STUDIO, {"data": [{"id": "m", "type": "vlm"}]}, True),
        (OLD_STUDIO, {"data": [{"id": "m", "type": "llm"}]}, False),
        (ROUTER, {"data": [{"id": "m", "architecture": {"input_modalities": ["text", "image"]}}]}, True),
        (ROUTER, {"data": [3, {"id": "m", "architecture": {"input_modalities": ["text"]}}]}, False),
        (ROUTER, [], None),
    ],
)
def test_what_servers_say_is_read(source: ImageSource, answer: Any, takes: bool | None) -> None:
    assert value_of("m", read_images(source, json.dumps(answer).encode())) is takes
    assert not read_images(source, b"<html>")


def fail(router: Router, error: BackendError) -> None:
    (route,) = router.routes("m")
    slot = route.free_slot("t")
    assert slot is not None
    with pytest.raises(BackendError), slot:
        raise error


async def supports(kind: str, url: str, error: BackendError | None = None) -> Support:
    backend = ChatCompletionsBackend(default_endpoint(kind, url))
    router = Router([Route("m", backend)], chance=lambda: 0.5)
    if error is not None:
        fail(router, error)
    try:
        return await router.routes("m")[0].image_support()
    finally:
        await backend.aclose()


def server(answer: Any, status: int = 200) -> web.Application:
    async def report(_request: web.Request) -> web.Response:
        return web.json_response(answer, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", report)
    return app


async def test_images_are_served_only_if_the_server_says_so() -> None:
    with serving(server({"capabilities": ["completion", "vision"]})) as url:
        assert (await supports("ollama", url)).level == "native"
        assert (await supports("ollama", url, REFUSAL)).level == "native"  # one client does not decide
    with serving(server({"capabilities": ["completion"]})) as url:
        assert await supports("ollama", url) == NO_IMAGES
    with serving(server({}, 404)) as url:
        assert await supports("ollama", url) == UNKNOWN_IMAGES
        assert await supports("vllm", url) == UNKNOWN_IMAGES
        assert (await supports("openai", url)).level == "native"


async def test_a_refusal_is_remembered_where_the_server_says_nothing() -> None:
    with serving(server({}, 404)) as url:
        assert await supports("vllm", url, REFUSAL) == REFUSED_IMAGES
        assert await supports("openai", url, REFUSAL) == REFUSED_IMAGES
        wrong_format = BackendRefused("unsupported image format", status=400)
        assert (await supports("openai", url, wrong_format)).level == "native"


def test_what_is_remembered_is_bounded_and_ends() -> None:
    now = 0.0
    clock: Callable[[], float] = lambda: now  # noqa: E731
    refused = RefusedImages(clock)
    keys = [Key("b", f"m{number}") for number in range(MAX_REMEMBERED_MODELS + 1)]
    for key in keys:
        refused.learn(key, REFUSAL)
    assert keys[0] not in refused
    assert keys[-1] in refused
    refused.learn(keys[0], BackendRefused("image input is not supported", status=503))
    assert keys[0] not in refused
    now = REMEMBERED_SECONDS
    assert keys[-1] not in refused


def test_pictures_on_a_text_model_do_not_pause_it() -> None:
    backend = ChatCompletionsBackend(default_endpoint("llama.cpp"))
    router = Router([Route("m", backend)], chance=lambda: 0.5)
    body = b'{"error": {"message": "image input is not supported"}}'
    for _ in range(20):
        fail(router, backend.errors.refusal(backend.endpoint, 500, {}, body))
    (health,) = router.health()
    assert (health.circuit, health.failures) == ("closed", 0)
