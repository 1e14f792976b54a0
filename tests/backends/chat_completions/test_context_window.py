"""Requests for context windows: their URL and body, and servers without an answer."""

import asyncio
from dataclasses import replace

import pytest

from antiphon.backends.chat_completions.client import ChatCompletionsBackend
from antiphon.backends.registry import default_endpoint
from tests.http.raw_upstream import RawUpstream, Wire, answering, complete_response, raw_upstream

VLLM = complete_response(200, b'{"data":[{"id":"m","max_model_len":32768}]}')
NOT_FOUND = complete_response(404, b'{"error":{"message":"no such path"}}')


def backend_for(upstream: RawUpstream, kind: str, path: str = "") -> ChatCompletionsBackend:
    base_url = upstream.url.removesuffix("/v1") + path if path else upstream.url
    return ChatCompletionsBackend(replace(default_endpoint(kind, base_url), api_key="sk-secret"))


def queried_paths(upstream: RawUpstream) -> list[str]:
    return [wire.head.partition(" HTTP")[0] for wire in upstream.wires]


async def test_windows_are_read_from_the_model_list() -> None:
    async with raw_upstream(answering(VLLM)) as upstream:
        backend = backend_for(upstream, "vllm")
        assert await asyncio.gather(*map(backend.context_window, ("m", "m", "other"))) == [32768, 32768, None]
        assert queried_paths(upstream) == ["GET /v1/models"]
        assert "authorization: Bearer sk-secret" in upstream.wires[0].head
        await backend.aclose()


@pytest.mark.parametrize(
    ("kind", "path", "answers", "window", "places"),
    [
        pytest.param(
            "llama.cpp",
            "/v1",
            [complete_response(200, b'{"default_generation_settings":{"n_ctx":4096}}')],
            4096,
            ["GET /props"],
            id="llama.cpp",
        ),
        pytest.param(
            "llama.cpp",
            "/v1",
            [NOT_FOUND, complete_response(200, b'{"data":[{"id":"m","meta":{"n_ctx":2048}}]}')],
            2048,
            ["GET /props", "GET /v1/models"],
            id="llama.cpp behind a proxy",
        ),
        pytest.param(
            "ollama",
            "/some/where/v1",
            [
                complete_response(200, b'{"models":[]}'),
                complete_response(200, b'{"parameters":"num_ctx 8192"}'),
            ],
            8192,
            ["GET /some/where/api/ps", "POST /some/where/api/show"],
            id="Ollama below a path",
        ),
        pytest.param(
            "lm-studio",
            "/v1",
            [NOT_FOUND, complete_response(200, b'{"data":[{"id":"m","loaded_context_length":4096}]}')],
            4096,
            ["GET /api/v1/models", "GET /api/v0/models"],
            id="LM Studio before 0.4",
        ),
    ],
)
async def test_each_kind_of_server_is_queried_at_its_own_path(
    kind: str, path: str, answers: list[bytes], window: int, places: list[str]
) -> None:
    async with raw_upstream(*map(answering, answers)) as upstream:
        backend = backend_for(upstream, kind, path)
        assert await backend.context_window("m") == window
        assert queried_paths(upstream) == places
        await backend.aclose()


async def test_the_query_to_ollama_names_the_model() -> None:
    async with raw_upstream(answering(NOT_FOUND), answering(complete_response(200, b"{}"))) as upstream:
        backend = backend_for(upstream, "ollama")
        assert await backend.context_window("qwen3:8b") is None
        assert upstream.wires[1].body == b'{"model":"qwen3:8b"}'
        await backend.aclose()


@pytest.mark.parametrize(
    "answer",
    [
        NOT_FOUND,
        complete_response(500, b"x"),
        complete_response(401, b"{}"),
        complete_response(200, b"<p>", media="text/html"),
        b"nonsense",
    ],
)
async def test_a_server_without_the_information_is_no_error(answer: bytes) -> None:
    async with raw_upstream(answering(answer)) as upstream:
        backend = backend_for(upstream, "vllm")
        assert await backend.context_window("m") is None
        await backend.aclose()


async def test_a_server_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(wire: Wire) -> None:
        await wire.send(VLLM[:30])
        await wire.until_cut_off()

    monkeypatch.setattr("antiphon.backends.http_backend.REPORT_TIMEOUT_SECONDS", 0.1)
    async with asyncio.timeout(5), raw_upstream(hang) as upstream:
        backend = backend_for(upstream, "vllm")
        assert await backend.context_window("m") is None
        await backend.aclose()


async def test_an_unreachable_server_is_no_error() -> None:
    async with raw_upstream(answering(VLLM)) as upstream:
        backend = backend_for(upstream, "vllm")
    assert await backend.context_window("m") is None
    await backend.aclose()
