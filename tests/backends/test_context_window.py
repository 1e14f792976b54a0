"""Context windows: where servers publish them, how they are parsed, and how long they are cached."""

import asyncio
import json
from typing import Any

import pytest

from antiphon.backends.context_window import WindowCache, read_windows, window_of
from antiphon.backends.registry import ENDPOINTS, WindowSource

LISTED = WindowSource()
PS, SHOW = ENDPOINTS["ollama"].windows
PROPS = ENDPOINTS["llama.cpp"].windows[0]
STUDIO, OLD_STUDIO = ENDPOINTS["lm-studio"].windows

Answer = Any


def found(source: WindowSource, answer: Answer, model: str = "m") -> int | None:
    return window_of(model, read_windows(source, json.dumps(answer).encode()))


@pytest.mark.parametrize(
    ("source", "answer", "window"),
    [
        pytest.param(LISTED, {"data": [{"id": "m", "max_model_len": 32768}]}, 32768, id="vLLM"),
        pytest.param(LISTED, {"data": [{"id": "m", "context_window": 131072}]}, 131072, id="Groq"),
        pytest.param(LISTED, {"data": [{"id": "m", "max_context_length": 32000}]}, 32000, id="Mistral"),
        pytest.param(LISTED, [{"id": "m", "context_length": 8192}], 8192, id="Together"),
        pytest.param(
            LISTED,
            {"data": [{"id": "m", "context_length": 200, "top_provider": {"context_length": 100}}]},
            100,
            id="OpenRouter",
        ),
        pytest.param(
            LISTED,
            {"data": [{"id": "m", "context_length": 200, "top_provider": {"context_length": None}}]},
            200,
            id="OpenRouter without a provider",
        ),
        pytest.param(
            LISTED,
            {"data": [{"id": "m", "meta": {"n_ctx_train": 131072}}]},
            None,
            id="what it was trained for",
        ),
        pytest.param(PROPS, {"default_generation_settings": {"n_ctx": 4096}}, 4096, id="llama.cpp"),
        pytest.param(
            PS, {"models": [{"name": "m", "model": "m", "context_length": 4096}]}, 4096, id="Ollama"
        ),
        pytest.param(
            PS, {"models": [{"name": "m:latest", "context_length": 4096}]}, 4096, id="Ollama, no tag"
        ),
        pytest.param(
            PS, {"models": [{"name": "m:8b", "context_length": 4096}]}, None, id="Ollama, other tag"
        ),
        pytest.param(
            SHOW,
            {"parameters": 'stop  "<|im|>"\nnum_ctx                 16384\ntop_k 4'},
            16384,
            id="Modelfile",
        ),
        pytest.param(SHOW, {"model_info": {"llama.context_length": 131072}}, None, id="Ollama, not loaded"),
        pytest.param(SHOW, {"parameters": "xnum_ctx 5\nnum_ctx many"}, None, id="not a number"),
        pytest.param(
            STUDIO,
            {
                "models": [
                    {
                        "key": "m",
                        "max_context_length": 9000,
                        "loaded_instances": [
                            {"config": {"context_length": 8192}},
                            {"config": {"context_length": 4096}},
                        ],
                    }
                ]
            },
            4096,
            id="LM Studio, loaded twice",
        ),
        pytest.param(
            STUDIO,
            {"models": [{"key": "m", "max_context_length": 9000, "loaded_instances": None}]},
            None,
            id="LM Studio, not loaded",
        ),
        pytest.param(
            OLD_STUDIO,
            {"data": [{"id": "m", "loaded_context_length": 4096}]},
            4096,
            id="LM Studio before 0.4",
        ),
        pytest.param(LISTED, {"data": [{"id": "other", "max_model_len": 5}]}, None, id="another model"),
    ],
)
def test_the_windows_that_servers_publish(source: WindowSource, answer: Answer, window: int | None) -> None:
    assert found(source, answer) == window


def test_an_adapter_has_the_window_of_its_model() -> None:
    listed = {
        "data": [{"id": "base", "max_model_len": 4096}, {"id": "m", "parent": "base", "max_model_len": None}]
    }
    assert found(LISTED, listed) == 4096


@pytest.mark.parametrize("value", [0, -1, True, "4096", 4096.5, None, [], 2**50])
def test_invalid_token_counts_are_ignored(value: Answer) -> None:
    assert found(LISTED, {"data": [{"id": "m", "max_model_len": value}]}) is None


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"\xff", b"3", b'"x"', b'{"data": 3}', b'{"data": ["m"]}', b"[[]]", b"[" * 5000]
)
def test_invalid_answers_are_ignored(body: bytes) -> None:
    for source in (LISTED, PROPS, PS, SHOW, STUDIO):
        assert window_of("m", read_windows(source, body)) is None


class Server:
    """Answers with windows and counts the requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str]] = []

    async def fetch(self, source: WindowSource, model: str) -> bytes | None:
        self.requests.append((source.path, model))
        await asyncio.sleep(0)
        return None if self.answer is None else json.dumps(self.answer).encode()


async def test_a_list_is_requested_once_for_all_its_models() -> None:
    server = Server({"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]})
    cache = WindowCache([LISTED], server.fetch)
    assert await asyncio.gather(*map(cache.get, ("a", "b", "c", "a"))) == [1, 2, None, 1]
    assert len(server.requests) == 1


async def test_per_model_information_is_requested_for_each_model() -> None:
    server = Server({"parameters": "num_ctx 7"})
    cache = WindowCache([SHOW], server.fetch)
    assert [await cache.get(name) for name in ("a", "b", "a")] == [7, 7, 7]
    assert server.requests == [("/api/show", "a"), ("/api/show", "b")]


async def test_the_first_source_with_a_window_wins() -> None:
    server = Server({"models": [{"name": "m", "context_length": 4096}], "parameters": "num_ctx 8192"})
    cache = WindowCache([PS, SHOW], server.fetch)
    assert (await cache.get("m"), await cache.get("unloaded")) == (4096, 8192)


async def test_cached_answers_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"data": [{"id": "m", "max_model_len": 1}]})
    cache = WindowCache([LISTED], server.fetch)
    assert await cache.get("m") == 1
    server.answer = {"data": [{"id": "m", "max_model_len": 2}]}
    assert await cache.get("m") == 1
    monkeypatch.setattr("antiphon.backends.context_window.WINDOW_TTL_SECONDS", -1.0)
    assert await cache.get("m") == 2


async def test_missing_answers_expire_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(None)
    cache = WindowCache([LISTED], server.fetch)
    assert [await cache.get("m"), await cache.get("m")] == [None, None]
    assert len(server.requests) == 1
    monkeypatch.setattr("antiphon.backends.context_window.NO_WINDOW_TTL_SECONDS", -1.0)
    server.answer = {"data": [{"id": "m", "max_model_len": 1}]}
    assert await cache.get("m") == 1


async def test_names_that_clients_invent_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.backends.context_window.MAX_CACHED_ANSWERS", 5)
    server = Server({"parameters": ""})
    cache = WindowCache([SHOW], server.fetch)
    for number in range(50):
        assert await cache.get(f"m{number}") is None
        assert len(cache._cache) <= 5  # pyright: ignore[reportPrivateUsage] -- there is no other way to see it


async def test_a_full_cache_does_not_cancel_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.backends.context_window.MAX_CACHED_ANSWERS", 2)
    go_on = asyncio.Event()

    async def slow(source: WindowSource, model: str) -> bytes | None:
        if model == "slow":
            await go_on.wait()
        return b'{"parameters": "num_ctx 7"}'

    cache = WindowCache([SHOW], slow)
    waiting = asyncio.create_task(cache.get("slow"))
    assert [await cache.get(name) for name in ("a", "b", "c")] == [7, 7, 7]
    go_on.set()
    assert await waiting == 7


async def test_closing_cancels_waiting_requests() -> None:
    requested = asyncio.Event()

    async def hang(source: WindowSource, model: str) -> bytes | None:
        requested.set()
        await asyncio.sleep(60)

    cache = WindowCache([LISTED], hang)
    waiting = asyncio.create_task(cache.get("m"))
    await requested.wait()
    await cache.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
