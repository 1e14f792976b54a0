"""SQLite and real processes: killed ones lose no acknowledged writes, and several share a file."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from tests.store.conftest import Clock
from tests.store.values import history, turn

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SAVER = """
import asyncio, sys, time
from pathlib import Path
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from tests.store.values import turn

async def main(path, name, count, parent):
    store = sql_stores(await SqliteDatabase.open(Path(path)), LocalSignals(), time.time)
    for number in range(int(count)):
        await store.responses.save("t", turn(f"{name}{number}", parent or None))
        print(number, flush=True)
        parent = f"{name}{number}"
    await store.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


async def saver(path: Path, name: str, count: int, parent: str = "") -> Process:
    """A process that saves this many chained responses and prints each one that is stored."""
    args = (sys.executable, "-c", SAVER, str(path), name, str(count), parent)
    return await asyncio.create_subprocess_exec(*args, stdout=PIPE, cwd=ROOT)


async def test_acknowledged_writes_survive_a_killed_process(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "antiphon.db"
    process = await saver(path, "", 1_000_000)
    assert process.stdout is not None
    seen = [await process.stdout.readline() for _ in range(200)]
    process.kill()
    seen += (await process.communicate())[0].splitlines(keepends=True)
    last = int([line for line in seen if line.endswith(b"\n")][-1])
    store = sql_stores(await SqliteDatabase.open(path), LocalSignals(), clock)
    expected = [f"{number}{mark}" for number in range(last + 1) for mark in "?!"]
    assert await history(store, f"{last}") == expected
    await store.aclose()


async def test_several_processes_share_one_file(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "antiphon.db"
    store = sql_stores(await SqliteDatabase.open(path), LocalSignals(), clock)
    await store.responses.save("t", turn("common"))
    processes = [await saver(path, name, 100, "common") for name in "abc"]
    await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0, 0, 0]
    for name in "abc":
        expected = [f"{name}{number}{mark}" for number in range(100) for mark in "?!"]
        assert await history(store, f"{name}99") == ["common?", "common!", *expected]
    await store.aclose()


async def test_several_processes_race_to_make_the_file(tmp_path: Path) -> None:
    processes = [await saver(tmp_path / "new" / "antiphon.db", name, 1) for name in "abcd"]
    await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
