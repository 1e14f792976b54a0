"""Context windows: what servers tell, where, and for how long it is believed."""

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

Told = Any


def found(source: WindowSource, told: Told, model: str = "m") -> int | None:
    return window_of(model, read_windows(source, json.dumps(told).encode()))


@pytest.mark.parametrize(
    ("source", "told", "window"),
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
def test_what_a_server_says_about_a_model(source: WindowSource, told: Told, window: int | None) -> None:
    assert found(source, told) == window


def test_an_adapter_has_the_window_of_its_model() -> None:
    listed = {
        "data": [{"id": "base", "max_model_len": 4096}, {"id": "m", "parent": "base", "max_model_len": None}]
    }
    assert found(LISTED, listed) == 4096


@pytest.mark.parametrize("value", [0, -1, True, "4096", 4096.5, None, [], 2**50])
def test_what_is_no_number_of_tokens_is_not_believed(value: Told) -> None:
    assert found(LISTED, {"data": [{"id": "m", "max_model_len": value}]}) is None


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"\xff", b"3", b'"x"', b'{"data": 3}', b'{"data": ["m"]}', b"[[]]", b"[" * 5000]
)
def test_what_is_no_answer_says_nothing(body: bytes) -> None:
    for source in (LISTED, PROPS, PS, SHOW, STUDIO):
        assert window_of("m", read_windows(source, body)) is None


class Server:
    """Tells windows, and counts how often it is asked."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.asked: list[tuple[str, str]] = []

    async def ask(self, source: WindowSource, model: str) -> bytes | None:
        self.asked.append((source.path, model))
        await asyncio.sleep(0)
        return None if self.told is None else json.dumps(self.told).encode()


async def test_a_list_is_asked_for_once_whoever_asks_about_its_models() -> None:
    server = Server({"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]})
    cache = WindowCache([LISTED], server.ask)
    assert await asyncio.gather(*map(cache.get, ("a", "b", "c", "a"))) == [1, 2, None, 1]
    assert len(server.asked) == 1


async def test_what_is_shown_about_one_model_is_asked_for_each() -> None:
    server = Server({"parameters": "num_ctx 7"})
    cache = WindowCache([SHOW], server.ask)
    assert [await cache.get(name) for name in ("a", "b", "a")] == [7, 7, 7]
    assert server.asked == [("/api/show", "a"), ("/api/show", "b")]


async def test_the_first_place_that_knows_is_believed() -> None:
    server = Server({"models": [{"name": "m", "context_length": 4096}], "parameters": "num_ctx 8192"})
    cache = WindowCache([PS, SHOW], server.ask)
    assert (await cache.get("m"), await cache.get("unloaded")) == (4096, 8192)


async def test_what_was_told_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"data": [{"id": "m", "max_model_len": 1}]})
    cache = WindowCache([LISTED], server.ask)
    assert await cache.get("m") == 1
    server.told = {"data": [{"id": "m", "max_model_len": 2}]}
    assert await cache.get("m") == 1
    monkeypatch.setattr("antiphon.backends.context_window.WINDOW_TTL_SECONDS", -1.0)
    assert await cache.get("m") == 2


async def test_a_server_that_did_not_tell_is_asked_again_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(None)
    cache = WindowCache([LISTED], server.ask)
    assert [await cache.get("m"), await cache.get("m")] == [None, None]
    assert len(server.asked) == 1
    monkeypatch.setattr("antiphon.backends.context_window.NO_WINDOW_TTL_SECONDS", -1.0)
    server.told = {"data": [{"id": "m", "max_model_len": 1}]}
    assert await cache.get("m") == 1


async def test_names_that_clients_invent_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.backends.context_window.MAX_CACHED_ANSWERS", 5)
    server = Server({"parameters": ""})
    cache = WindowCache([SHOW], server.ask)
    for number in range(50):
        assert await cache.get(f"m{number}") is None
        assert len(cache._cache) <= 5  # pyright: ignore[reportPrivateUsage] -- there is no other way to see it


async def test_nobody_else_is_given_up_when_the_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_nobody_waits_for_a_server_after_the_end() -> None:
    asked = asyncio.Event()

    async def hang(source: WindowSource, model: str) -> bytes | None:
        asked.set()
        await asyncio.sleep(60)

    cache = WindowCache([LISTED], hang)
    waiting = asyncio.create_task(cache.get("m"))
    await asked.wait()
    await cache.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
