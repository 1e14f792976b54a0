"""Programs in Monty, the sandbox where bubblewrap does not work: ordinary ones, and some that attack it."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from antiphon.sandbox.monty import Monty, MontySession
from antiphon.sandbox.port import MIB, SandboxEnded, SandboxFile, SandboxFileError, SandboxLimits

pytestmark = pytest.mark.requirement("HOSTED/containers-monty")

LIMITS = SandboxLimits(memory_bytes=64 * MIB, disk_bytes=MIB, run_seconds=1, output_bytes=10_000)


@pytest.fixture
async def session() -> AsyncGenerator[MontySession, None]:
    started = await Monty().start(LIMITS)
    yield started
    await started.close()


async def test_variables_live_between_runs_and_the_last_value_is_shown(session: MontySession) -> None:
    assert (await session.run("x = 20\nprint('made')")).logs == "made\n"
    assert (await session.run("import json\nx + 1")).logs == "21\n"
    assert (await session.run("None")).logs == ""
    assert (
        await session.run("def f():\n    return [\n        1,\n    ]\n\nf()  # call it\n")
    ).logs == "[1]\n"


async def test_an_exception_is_in_the_logs_with_the_line(session: MontySession) -> None:
    result = await session.run("x = 1\nprint('before')\nx / 0")
    assert result.outcome == "raised"
    assert result.logs.startswith("before\nTraceback")
    assert "line 3" in result.logs
    assert "ZeroDivisionError" in result.logs
    assert (await session.run("def f(:")).outcome == "raised"


async def test_files_go_in_and_out(session: MontySession) -> None:
    await session.write("in.txt", b"abc")
    await session.write("in.txt", b"def", 3)
    result = await session.run(
        "with open('/mnt/data/o.txt', 'w') as f:\n    f.write(open('in.txt').read() * 2)"
    )
    assert result.changed == (SandboxFile("o.txt", 12),)
    assert await session.read("o.txt") == b"abcdefabcdef"
    assert await session.read("o.txt", 12) == b""
    await session.move("o.txt", "p.txt")
    assert {file.name for file in await session.files()} == {"in.txt", "p.txt"}
    await session.delete("in.txt")
    assert await session.files() == (SandboxFile("p.txt", 12),)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", ".", "missing.txt", "a\0b"])
async def test_names_outside_of_the_folder_are_errors(session: MontySession, name: str) -> None:
    with pytest.raises(SandboxFileError):
        await session.read(name)


async def test_the_files_have_a_limit(session: MontySession) -> None:
    with pytest.raises(SandboxFileError):
        await session.write("big", bytes(2 * MIB))
    for _ in range(3):
        await session.run("open('/mnt/data/big', 'w').write('a' * 700_000)")
    flood = await session.run("for n in range(100):\n    open(f'/mnt/data/{n}', 'w').write('a' * 100_000)")
    assert flood.outcome == "raised"
    assert sum(file.size_bytes for file in await session.files()) <= MIB
    assert (await session.run("print('alive')")).logs == "alive\n"


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "open('../../etc/passwd').read()",
        "import os\nos.listdir('/')",
        "import os\nos.getenv('HOME')",
        "import os\nos.system('id')",
        "import os\nos.symlink('/etc', 'etc')",
        "import subprocess",
        "import socket",
        "import ctypes",
        "__import__('os').fork()",
    ],
)
async def test_the_host_is_out_of_reach(session: MontySession, code: str) -> None:
    result = await session.run(code)
    assert result.outcome == "raised", result.logs
    assert (await session.run("print('alive')")).logs == "alive\n"


async def test_a_large_allocation_is_a_memory_error(session: MontySession) -> None:
    result = await session.run("x = 'a' * 10**10")
    assert (result.outcome, "MemoryError" in result.logs) == ("raised", True)
    assert (await session.run("print('alive')")).logs == "alive\n"


async def test_a_large_last_value_does_not_reach_this_process(session: MontySession) -> None:
    result = await session.run("[0] * 2_000_000")
    assert result.outcome in ("completed", "raised")
    assert len(result.logs) <= LIMITS.output_bytes + 1_000


async def test_endless_output_is_cut_off(session: MontySession) -> None:
    result = await session.run("while True:\n    print('x' * 1000)")
    assert result.outcome == "timeout"
    assert len(result.logs) == LIMITS.output_bytes
    assert result.dropped_bytes > 0


async def test_a_run_that_takes_too_long_loses_the_variables_and_keeps_the_files(
    session: MontySession,
) -> None:
    await session.run("x = 1\nopen('/mnt/data/kept', 'w').write('a')")
    assert (await session.run("while True:\n    pass")).outcome == "timeout"
    assert "NameError" in (await session.run("x")).logs
    assert (await session.run("open('/mnt/data/kept').read()")).logs == "'a'\n"


async def test_sleeping_counts(session: MontySession) -> None:
    assert (await session.run("import time\ntime.sleep(60)")).outcome == "timeout"


async def test_binary_output_is_text(session: MontySession) -> None:
    assert (await session.run(r"print(b'\xff\x00', '\x00')")).logs == "b'\\xff\\x00' �\n"


async def test_a_cancelled_run_ends_the_sandbox(session: MontySession) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.run("while True: pass"), 0.2)
    assert not session.running
    with pytest.raises(SandboxEnded):
        await session.run("1")


async def test_nothing_is_left_of_a_closed_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    session = await Monty().start(LIMITS)
    await session.write("a", b"b")
    [name] = os.listdir(tmp_path)
    assert os.stat(tmp_path / name).st_mode & 0o777 == 0o700
    await session.close()
    assert not os.listdir(tmp_path)
