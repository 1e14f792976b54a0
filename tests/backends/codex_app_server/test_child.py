"""The process at its end: whoever waits is told why, and nothing of it stays. Also with uvloop, as served."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from antiphon.backends.codex_app_server import child as module
from antiphon.backends.codex_app_server.child import Child
from antiphon.errors import BackendBroken
from tests.backends.codex_app_server.playing import child_options
from tests.backends.codex_app_server.test_backend import PATIENCE, is_running, until


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.5)


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(loop: Callable[[], asyncio.AbstractEventLoop], main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(bounded())


def noted(folder: Path) -> list[str]:
    notes = folder / "notes"
    return notes.read_text().splitlines() if notes.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_a_process_that_does_not_read_any_more_is_given_up(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        child = await Child.start(child_options(tmp_path, "closes_its_input"))
        await until(lambda: noted(tmp_path) == ["closed"])
        with pytest.raises(BackendBroken, match="closed its input"):
            while True:
                await child.call("thread/start", {}, patience=PATIENCE)
        assert not child.alive
        await until(lambda: not is_running(child.pid))
        await child.aclose()

    run(loop, main)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_who_asks_a_dying_process_is_told_of_what_it_died(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        child = await Child.start(child_options(tmp_path, "ends_with_a_helper"))
        await until(lambda: not child.alive)
        assert child.error is None  # its helper may still say why
        with pytest.raises(BackendBroken, match="exited with status 7: Error: out of luck"):
            await child.call("thread/start", {}, patience=PATIENCE)
        await child.aclose()

    run(loop, main)


@pytest.mark.slow
async def test_who_waits_is_told_the_cause_also_when_the_process_is_tidied_up_meanwhile(
    tmp_path: Path,
) -> None:
    child = await Child.start(child_options(tmp_path, "ends_with_a_helper"))
    await until(lambda: not child.alive)
    waiting = child.ask("thread/start", {})
    await child.aclose()
    with pytest.raises(BackendBroken, match="out of luck"):
        await child.answer_to(waiting, patience=PATIENCE)


@pytest.mark.slow
async def test_nothing_that_it_has_started_stays(tmp_path: Path) -> None:
    child = await Child.start(child_options(tmp_path, "leaves_a_helper"))
    await until(lambda: len(noted(tmp_path)) == 1)
    helper = int(noted(tmp_path)[0])
    assert is_running(helper)
    await child.aclose()
    await until(lambda: not is_running(helper))


async def test_a_fault_of_ours_while_reading_is_told_to_those_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = await Child.start(child_options(tmp_path, "answer"))

    def stumble(_: object) -> None:
        raise ValueError("stumbled")

    monkeypatch.setattr(child, "_take", stumble)
    with pytest.raises(BackendBroken, match="stumbled"):
        await child.call("model/list", {"cursor": None}, patience=PATIENCE)
    assert not child.alive
    await child.aclose()
