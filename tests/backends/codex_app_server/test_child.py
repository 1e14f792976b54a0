"""The end of the process: waiting calls get the cause, and no subprocess remains. Also with uvloop, as in
production.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from antiphon.backends.codex_app_server import child as module
from antiphon.backends.codex_app_server.child import Child
from antiphon.errors import BackendBroken
from tests.backends.codex_app_server.child_support import child_options
from tests.backends.codex_app_server.test_backend import TEST_TIMEOUT_SECONDS, is_running, until


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.5)


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(loop: Callable[[], asyncio.AbstractEventLoop], main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
            await main()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(bounded())


def noted(folder: Path) -> list[str]:
    notes = folder / "notes"
    return notes.read_text().splitlines() if notes.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_a_process_that_closed_its_input_is_abandoned(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        child = await Child.start(child_options(tmp_path, "closes_its_input"))
        await until(lambda: noted(tmp_path) == ["closed"])
        with pytest.raises(BackendBroken, match="closed its input"):
            while True:
                await child.call("thread/start", {}, patience=TEST_TIMEOUT_SECONDS)
        assert not child.alive
        await until(lambda: not is_running(child.pid))
        await child.aclose()

    run(loop, main)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_a_call_to_a_dying_process_gets_the_cause_of_its_death(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        child = await Child.start(child_options(tmp_path, "ends_with_a_helper"))
        await until(lambda: not child.alive)
        assert child.error is None  # its child process may still write the cause
        with pytest.raises(BackendBroken, match="exited with status 7: Error: out of luck"):
            await child.call("thread/start", {}, patience=TEST_TIMEOUT_SECONDS)
        await child.aclose()

    run(loop, main)


@pytest.mark.slow
async def test_a_waiting_call_gets_the_cause_even_if_the_child_is_closed_meanwhile(
    tmp_path: Path,
) -> None:
    child = await Child.start(child_options(tmp_path, "ends_with_a_helper"))
    await until(lambda: not child.alive)
    waiting = child.ask("thread/start", {})
    await child.aclose()
    with pytest.raises(BackendBroken, match="out of luck"):
        await child.answer_to(waiting, patience=TEST_TIMEOUT_SECONDS)


@pytest.mark.slow
async def test_subprocesses_of_the_child_are_killed(tmp_path: Path) -> None:
    child = await Child.start(child_options(tmp_path, "leaves_a_helper"))
    await until(lambda: len(noted(tmp_path)) == 1)
    helper = int(noted(tmp_path)[0])
    assert is_running(helper)
    await child.aclose()
    await until(lambda: not is_running(helper))


async def test_an_internal_error_while_reading_reaches_waiting_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = await Child.start(child_options(tmp_path, "answer"))

    def fail(_: object) -> None:
        raise ValueError("stumbled")

    monkeypatch.setattr(child, "_take", fail)
    with pytest.raises(BackendBroken, match="stumbled"):
        await child.call("model/list", {"cursor": None}, patience=TEST_TIMEOUT_SECONDS)
    assert not child.alive
    await child.aclose()
