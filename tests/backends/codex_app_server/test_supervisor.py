"""A child that breaks again and again is not started in a loop."""

from pathlib import Path

import pytest

from antiphon.backends.codex_app_server import supervisor as module
from antiphon.backends.codex_app_server.supervisor import Supervisor
from antiphon.errors import BackendBroken
from tests.backends.codex_app_server.playing import child_options


async def test_pauses_between_starts_grow_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(module, "sleep", note)
    supervisor = Supervisor(child_options(tmp_path, "dies_at_start"))
    for _ in range(6):
        with pytest.raises(BackendBroken):
            await supervisor.child()
    await supervisor.aclose()
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0]


async def test_a_turn_that_came_to_its_end_makes_the_next_start_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(module, "sleep", note)
    supervisor = Supervisor(child_options(tmp_path, "dies_at_start", "dies_at_start", "answer"))
    for _ in range(2):
        with pytest.raises(BackendBroken):
            await supervisor.child()
    child = await supervisor.child()
    supervisor.worked()
    await child.aclose()
    await supervisor.child()
    await supervisor.aclose()
    assert pauses == [0.5, 1.0, 0.5]
