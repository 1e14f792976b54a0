"""What servers report of their models is requested as seldom as possible, and forgotten."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from antiphon.backends.context_window import read_windows
from antiphon.backends.image_support import read_images
from antiphon.backends.model_reports import ReportCache
from antiphon.backends.registry import ENDPOINTS, WindowSource

LISTED = WindowSource()
PS, SHOW = ENDPOINTS["ollama"].windows
Answer = Any


def windows(
    sources: Sequence[WindowSource], ask: Callable[[WindowSource, str], Awaitable[bytes | None]]
) -> ReportCache[WindowSource, int]:
    return ReportCache(sources, ask, read_windows)


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
    cache = windows([LISTED], server.fetch)
    assert await asyncio.gather(*map(cache.get, ("a", "b", "c", "a"))) == [1, 2, None, 1]
    assert len(server.requests) == 1


async def test_per_model_information_is_requested_for_each_model() -> None:
    server = Server({"parameters": "num_ctx 7"})
    cache = windows([SHOW], server.fetch)
    assert [await cache.get(name) for name in ("a", "b", "a")] == [7, 7, 7]
    assert server.requests == [("/api/show", "a"), ("/api/show", "b")]


async def test_the_first_source_with_a_window_wins() -> None:
    server = Server({"models": [{"name": "m", "context_length": 4096}], "parameters": "num_ctx 8192"})
    cache = windows([PS, SHOW], server.fetch)
    assert (await cache.get("m"), await cache.get("unloaded")) == (4096, 8192)


async def test_cached_answers_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({"data": [{"id": "m", "max_model_len": 1}]})
    cache = windows([LISTED], server.fetch)
    assert await cache.get("m") == 1
    server.answer = {"data": [{"id": "m", "max_model_len": 2}]}
    assert await cache.get("m") == 1
    monkeypatch.setattr("antiphon.backends.model_reports.REPORT_TTL_SECONDS", -1.0)
    assert await cache.get("m") == 2


async def test_missing_answers_expire_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(None)
    cache = windows([LISTED], server.fetch)
    assert [await cache.get("m"), await cache.get("m")] == [None, None]
    assert len(server.requests) == 1
    monkeypatch.setattr("antiphon.backends.model_reports.NO_REPORT_TTL_SECONDS", -1.0)
    server.answer = {"data": [{"id": "m", "max_model_len": 1}]}
    assert await cache.get("m") == 1


async def test_names_that_clients_invent_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.backends.model_reports.MAX_CACHED_REPORTS", 5)
    server = Server({"parameters": ""})
    cache = windows([SHOW], server.fetch)
    for number in range(50):
        assert await cache.get(f"m{number}") is None
        assert len(cache._cache) <= 5  # pyright: ignore[reportPrivateUsage] -- there is no other way to see it


async def test_a_full_cache_does_not_cancel_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.backends.model_reports.MAX_CACHED_REPORTS", 2)
    go_on = asyncio.Event()

    async def slow(source: WindowSource, model: str) -> bytes | None:
        if model == "slow":
            await go_on.wait()
        return b'{"parameters": "num_ctx 7"}'

    cache = windows([SHOW], slow)
    waiting = asyncio.create_task(cache.get("slow"))
    assert [await cache.get(name) for name in ("a", "b", "c")] == [7, 7, 7]
    go_on.set()
    assert await waiting == 7


async def test_closing_cancels_waiting_requests() -> None:
    requested = asyncio.Event()

    async def hang(source: WindowSource, model: str) -> bytes | None:
        requested.set()
        await asyncio.sleep(60)

    cache = windows([LISTED], hang)
    waiting = asyncio.create_task(cache.get("m"))
    await requested.wait()
    await cache.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_value_of_false_is_a_value() -> None:
    """The first source that says that a model takes no images decides."""
    asked: list[str] = []

    async def ask(source: object, _model: str) -> bytes:
        asked.append(str(source))
        return b'{"models": [{"key": "m", "capabilities": {"vision": false}}]}'

    cache = ReportCache(ENDPOINTS["lm-studio"].images, ask, read_images)
    assert [await cache.get("m"), await cache.get("m")] == [False, False]
    assert len(asked) == 1
