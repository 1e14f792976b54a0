"""The child process itself, with a scripted library in place of xllamacpp."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from antiphon.backends.local.engine_child import EngineOptions, EngineStart, make_params
from antiphon.backends.local.engine_process import EngineProcess
from antiphon.errors import BackendBroken, BackendError
from tests.backends.local.scripted_llama import xllamacpp

OPTIONS = EngineOptions(context=1000, parallel=3, threads=2)


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child finds the scripted library first."""
    folder = str(Path(xllamacpp.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, *sys.path]))


@pytest.fixture
def process() -> Generator[EngineProcess, None, None]:
    process = EngineProcess(Path("good.gguf"), OPTIONS)
    yield process
    process.close()


def _chat(process: EngineProcess, body: bytes) -> list[bytes]:
    received: list[bytes] = []

    def put(payload: bytes) -> bool:
        received.append(payload)
        return False

    process.chat(body, put)
    return received


def test_payloads_arrive_without_comments_and_the_end(process: EngineProcess) -> None:
    assert _chat(process, b"{}") == [b'{"n":1}', b'{"n":2}']


def test_a_stopped_chat_receives_no_more(process: EngineProcess) -> None:
    received: list[bytes] = []
    process.chat(b"{}", lambda payload: received.append(payload) is None)
    assert received == [b'{"n":1}']


def test_an_error_is_a_payload(process: EngineProcess) -> None:
    assert b"no such thing" in _chat(process, b'"refuse"')[0]


def test_tokens_are_counted(process: EngineProcess) -> None:
    assert process.count_tokens("abc") == len(b'{"content":"abc"}')


def test_a_crash_fails_the_request_and_says_how(process: EngineProcess) -> None:
    with pytest.raises(BackendBroken, match="ended by signal 6; the next request starts it again"):
        _chat(process, b'"die"')
    assert not process.is_alive


@pytest.mark.parametrize(
    ("name", "reason"), [("broken.gguf", "Failed to init server"), ("crashing.gguf", "ended by signal 6")]
)
def test_a_model_that_does_not_load_says_why(name: str, reason: str) -> None:
    with pytest.raises(BackendError, match=reason) as caught:
        EngineProcess(Path(name), OPTIONS)
    assert caught.value.code == "model_unavailable"


def test_closing_ends_the_process_and_removes_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as short:  # the path of a socket is at most 100 characters long
        monkeypatch.setattr(tempfile, "tempdir", short)
        process = EngineProcess(Path("good.gguf"), OPTIONS)
        assert [*Path(short).glob("antiphon-*/llama.sock")]
        process.close()
        assert not [*Path(short).iterdir()]
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


async def test_loading_does_not_hold_the_event_loop() -> None:
    """The library holds the interpreter's lock while it loads."""
    loading = asyncio.create_task(asyncio.to_thread(EngineProcess, Path("slow.gguf"), OPTIONS))
    ticks = 0
    while not loading.done():
        await asyncio.sleep(0.01)
        ticks += 1
    (await loading).close()
    assert ticks > xllamacpp.HOLD_SECONDS / 0.01 / 4


PARENT = """
import sys, time
from pathlib import Path
from antiphon.backends.local.engine_child import EngineOptions
from antiphon.backends.local.engine_process import EngineProcess
process = EngineProcess(Path("good.gguf"), EngineOptions(context=1, parallel=1, threads=1))
print(process.pid, flush=True)
time.sleep(60)
"""


def test_the_child_ends_with_a_parent_that_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGINT)  # as Ctrl-C, which the child gets too
        os.kill(child, signal.SIGINT)
        parent.kill()
    end = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and _state(child) != "Z":
        assert time.monotonic() < end
        time.sleep(0.01)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_the_context_size_is_per_request_and_the_engine_listens_privately(tmp_path: Path) -> None:
    params = make_params(xllamacpp, EngineStart("tiny.gguf", OPTIONS, "secret", str(tmp_path)))
    assert (params.n_ctx, params.n_parallel, params.cpuparams.n_threads) == (3000, 3, 2)
    assert params.hostnames == [f"{tmp_path}/llama.sock"]
    assert params.api_keys == ["secret"]
    far = make_params(xllamacpp, EngineStart("tiny.gguf", OPTIONS, "secret", "/x" * 60))
    assert far.hostnames == ["127.0.0.1"]
