import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.backends.local.backend import LocalBackend
from antiphon.backends.local.errors import broken_model
from antiphon.errors import AntiphonError, BackendError, Unavailable
from antiphon.turn.chunks import HEARTBEAT, Failed
from tests.backends.local.fake_llama import FakeLlama, ending, endless, piece
from tests.backends.local.turns import run, text_of, turn


async def test_many_first_requests_load_the_model_once(backend: LocalBackend, llama: FakeLlama) -> None:
    answers = await asyncio.gather(*(run(backend, input="Hi") for _ in range(6)))
    assert [text_of(chunks) for chunks in answers] == ["Hello there"] * 6
    assert llama.loads == 1


async def test_a_model_that_does_not_load_is_tried_again_by_the_next_request(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.load_errors = [broken_model(Path("tiny.gguf"), "Failed to init server")]
    with pytest.raises(BackendError, match=r"tiny\.gguf cannot be loaded") as caught:
        await run(backend, input="Hi")
    assert caught.value.code == "model_unavailable"
    assert text_of(await run(backend, input="Hi")) == "Hello there"


async def test_a_model_whose_process_has_ended_is_loaded_again(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    await run(backend, input="Hi")
    llama.is_alive = False
    loading = asyncio.gather(*(run(backend, input="Hi") for _ in range(3)))
    await asyncio.to_thread(llama.requested.acquire)
    llama.is_alive = True
    assert [text_of(chunks) for chunks in await loading] == ["Hello there"] * 3
    assert llama.loads >= 2


async def test_closing_the_stream_stops_the_engine(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = endless()
    chunks = backend.prepare(turn(input="Hi")).chunks()
    await anext(chunks)
    await chunks.aclose()
    assert await asyncio.to_thread(llama.stopped.wait, 1.0)


async def test_cancelling_the_task_stops_the_engine(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = endless()
    task = asyncio.create_task(run(backend, input="Hi"))
    await asyncio.to_thread(llama.requested.acquire)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(llama.stopped.wait, 1.0)


async def test_a_request_cancelled_while_queued_never_reaches_the_engine(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    go = threading.Event()

    def hold(_body: dict[str, Any]) -> Iterable[bytes]:
        go.wait(5)
        return [piece("x"), *ending()]

    llama.answer = hold
    running = [asyncio.create_task(run(backend, input="Hi")) for _ in range(2)]
    for _ in running:
        await asyncio.to_thread(llama.requested.acquire)
    waiting = asyncio.create_task(run(backend, input="waits"))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await asyncio.gather(*running)
    await run(backend, input="after")
    assert [body["messages"][-1]["content"] for body in llama.bodies] == ["Hi", "Hi", "after"]


async def test_silence_becomes_heartbeats_and_signs_of_life_do_not(llama: FakeLlama, tmp_path: Path) -> None:
    progress = msgspec.json.encode({"choices": [], "prompt_progress": {"processed": 64}})

    def slow(_body: dict[str, Any]) -> Iterable[bytes]:
        for _ in range(30):
            time.sleep(0.01)
            yield progress
        time.sleep(0.25)
        yield from [piece("x"), *ending()]

    llama.answer = slow
    (tmp_path / "tiny.gguf").touch()
    backend = LocalBackend(str(tmp_path / "tiny.gguf"), tmp_path, heartbeat=0.1)
    began = time.monotonic()
    batches = [batch async for batch in backend.prepare(turn(input="Hi")).chunks()]
    due = (time.monotonic() - began) / (0.1 * 0.75)
    await backend.aclose()
    assert 4 <= batches.count(HEARTBEAT) <= due + 1


async def test_closing_the_backend_ends_running_requests_and_rejects_new_ones(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.answer = endless()
    chunks = backend.prepare(turn(input="Hi")).chunks()
    await anext(chunks)
    await backend.aclose()
    received = [chunk async for batch in chunks for chunk in batch]
    assert isinstance(received[-1], Failed)
    assert isinstance(received[-1].error, Unavailable)
    with pytest.raises(Unavailable):
        await run(backend, input="Hi")


async def test_closing_the_backend_stops_a_fetch(
    llama: FakeLlama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert llama
    began = threading.Event()

    def never_done(_row: object, _folder: Path, progress: Callable[[int, int, str], None]) -> Path:
        while True:
            began.set()
            progress(0, 1, "downloading")
            time.sleep(0.01)

    monkeypatch.setattr("antiphon.backends.local.backend.fetch", never_done)
    backend = LocalBackend("smollm2-135m", tmp_path)
    loading = asyncio.create_task(run(backend, input="Hi"))
    await asyncio.to_thread(began.wait, 5)
    await backend.aclose()
    with pytest.raises(AntiphonError):
        await loading
