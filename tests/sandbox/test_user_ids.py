"""User ids of sandboxes: no two sandboxes on a machine have the same."""

import asyncio
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.sandbox.bubblewrap import BubblewrapSession
from antiphon.sandbox.port import SandboxEnded
from antiphon.sandbox.user_ids import LARGE_RANGE, SMALL_RANGE, available_range, hold_user_id
from tests.sandbox.sandboxes import SMALL, bubblewrap

TWO = range(4_000_000_000, 4_000_000_002)
"""Not of the ranges of sandboxes: tests run at the same time."""
HOLD = """
from antiphon.sandbox.user_ids import hold_user_id
held = hold_user_id(range(4_100_000_000, 4_100_000_001))
print(held.uid, flush=True)
input()
"""
FORK = """
import os, time
children = 0
for _ in range(20):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    children += 1
time.sleep(1)
print(children)
"""


def first_of_range(_count: int) -> int:
    return 0


def test_an_id_is_held_by_one_sandbox_until_it_is_released() -> None:
    first, second = hold_user_id(TWO), hold_user_id(TWO)
    assert {first.uid, second.uid} == {4_000_000_000, 4_000_000_001}
    with pytest.raises(OSError, match="all user ids of sandboxes are in use"):
        hold_user_id(TWO)
    first.release()
    again = hold_user_id(TWO)
    assert again.uid == first.uid
    again.release()
    second.release()


def test_other_processes_do_not_get_an_id_that_is_held() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "4100000000\n"
        with pytest.raises(OSError, match="in use"):
            hold_user_id(range(4_100_000_000, 4_100_000_001))
        other.kill()
        other.wait()
    hold_user_id(range(4_100_000_000, 4_100_000_001)).release()


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("         0          0 4294967295\n", LARGE_RANGE),
        ("         0     100000      65536\n", SMALL_RANGE),
        ("         0       1000          1\n         1     100000      65536\n", SMALL_RANGE),
        ("         0          0 1880000001\n", SMALL_RANGE),
    ],
)
def test_only_ids_that_exist_are_used(tmp_path: Path, ids: str, expected: range) -> None:
    uid_map = tmp_path / "uid_map"
    uid_map.write_text(ids)
    assert available_range(uid_map) == expected


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests do not run as root")
async def test_processes_of_one_sandbox_do_not_count_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbelow", first_of_range)
    sessions: list[BubblewrapSession] = [await bubblewrap().start(SMALL) for _ in range(2)]
    try:
        results = await asyncio.gather(*(session.run(FORK) for session in sessions))
    finally:
        for session in sessions:
            await session.close()
    assert [result.logs for result in results] == ["20\n", "20\n"]


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests do not run as root")
async def test_a_server_without_a_free_id_starts_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    only = range(4_200_000_000, 4_200_000_001)
    monkeypatch.setattr("antiphon.sandbox.user_ids.available_range", lambda: only)
    held = hold_user_id()
    with pytest.raises(SandboxEnded, match="in use"):
        await bubblewrap().start(SMALL)
    held.release()
