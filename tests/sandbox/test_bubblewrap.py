"""Ordinary programs in a real sandbox."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Callable

import pytest
from msgspec.structs import replace

from antiphon.memory_use import children_bytes
from antiphon.sandbox.bubblewrap import BubblewrapSession, find_bubblewrap
from antiphon.sandbox.cores import Cores
from antiphon.sandbox.port import SandboxEnded, SandboxFile, SandboxFileError, SandboxLimits
from antiphon.sandbox.process_tree import used_memory_bytes
from antiphon.sandbox.seccomp import seccomp_programs
from tests.sandbox.sandboxes import SMALL, bubblewrap


@pytest.fixture
async def session() -> AsyncGenerator[BubblewrapSession, None]:
    started = await bubblewrap().start(SMALL)
    yield started
    await started.close()


async def test_variables_live_between_runs_and_the_last_value_is_shown(session: BubblewrapSession) -> None:
    assert (await session.run("x = 20\nprint('made')")).logs == "made\n"
    assert (await session.run("import json\nx + 1")).logs == "21\n"
    assert (await session.run("None")).logs == ""
    assert (await session.run("_ * 2")).logs == "42\n"


async def test_an_exception_is_in_the_logs_with_the_line(session: BubblewrapSession) -> None:
    result = await session.run("x = 1\nprint('before')\nx / 0")
    assert result.outcome == "raised"
    assert result.logs.startswith("before\nTraceback")
    assert "x / 0" in result.logs
    assert "inside.py" not in result.logs
    assert (await session.run("def f(:")).outcome == "raised"


async def test_files_go_in_and_out(session: BubblewrapSession) -> None:
    await session.write("in.txt", b"abc")
    await session.write("in.txt", b"def", 3)
    result = await session.run(
        "open('out/../deep.txt', 'w') if 0 else open('/mnt/data/o.txt', 'w').write(open('in.txt').read() * 2)"
    )
    assert result.changed == (SandboxFile("o.txt", 12),)
    assert await session.read("o.txt") == b"abcdefabcdef"
    assert await session.read("o.txt", 12) == b""
    assert {file.name for file in await session.files()} == {"in.txt", "o.txt"}
    await session.delete("in.txt")
    assert await session.files() == (SandboxFile("o.txt", 12),)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/inside.py", "", "missing.txt", "a\0b"])
async def test_names_outside_of_the_folder_are_errors(session: BubblewrapSession, name: str) -> None:
    with pytest.raises(SandboxFileError):
        await session.read(name)


async def test_a_link_is_not_followed(session: BubblewrapSession) -> None:
    await session.run("import os; os.symlink('/proc/1/environ', 'link')")
    with pytest.raises(SandboxFileError):
        await session.read("link")


async def test_a_file_that_does_not_fit_is_an_error(session: BubblewrapSession) -> None:
    with pytest.raises(SandboxFileError):
        for index in range(20):
            await session.write("big", bytes(1024 * 1024), index * 1024 * 1024)
    assert (await session.run("print('alive')")).logs == "alive\n"


async def test_runs_wait_for_each_other(session: BubblewrapSession) -> None:
    results = await asyncio.gather(*(session.run(f"n = {n}\nn") for n in range(5)))
    assert [result.logs for result in results] == [f"{n}\n" for n in range(5)]


async def test_a_cancelled_run_ends_the_sandbox(session: BubblewrapSession) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.run("while True: pass"), 0.2)
    assert not session.running
    with pytest.raises(SandboxEnded):
        await session.run("1")


async def test_commands_share_the_files_with_code(session: BubblewrapSession) -> None:
    first = await session.run_command("printf abc > f.txt && cat f.txt; echo oops >&2; exit 4", 5)
    assert (first.exit_code, first.stdout, first.stderr) == (4, "abc", "oops\n")
    assert first.changed == (SandboxFile("f.txt", 3),)
    await session.run("x = open('f.txt').read()")
    assert (await session.run_command("echo $PWD $HOME $0; python3 --version || true", 5)).stdout.startswith(
        "/mnt/data /tmp"
    )
    assert (await session.run("x")).logs == "'abc'\n", "variables outlive commands"


async def test_a_command_ends_with_its_shell(session: BubblewrapSession) -> None:
    ended = await session.run_command("sleep 60 & echo begun", 10)
    assert (ended.exit_code, ended.stdout) == (0, "begun\n")
    late = await session.run_command("echo first; sleep 60", 0.5)
    assert (late.exit_code, late.stdout) == (None, "first\n")
    left = await session.run_command("ls /proc | grep -c '^[0-9]'", 5)
    assert int(left.stdout) <= 7, "processes of a command end with it"


async def test_the_memory_of_a_sandbox_is_counted(session: BubblewrapSession) -> None:
    pid = session._process.pid  # pyright: ignore[reportPrivateUsage]
    before = used_memory_bytes(pid)
    await session.run("x = bytearray(b'x' * 50_000_000)")
    assert used_memory_bytes(pid) - before > 40_000_000
    assert used_memory_bytes(2**22 + 1) == 0


async def test_a_sandbox_has_the_cores_that_it_may_use() -> None:
    session = await bubblewrap().start(replace(SMALL, cores=2))
    result = await session.run("import os; sorted(os.sched_getaffinity(0))")
    await session.close()
    cores = os.sched_getaffinity(0)
    assert set(json.loads(result.logs)) <= cores
    assert len(json.loads(result.logs)) == min(2, len(cores))


def test_sandboxes_are_spread_over_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    def usable(_pid: int) -> set[int]:
        return {0, 3, 5}

    monkeypatch.setattr("os.sched_getaffinity", usable)
    cores = Cores()
    taken = [cores.take(1) for _ in range(3)]
    assert sorted(taken) == [(0,), (3,), (5,)]
    cores.give_back((3,))
    assert cores.take(1) == (3,)
    assert sorted(cores.take(8)) == [0, 3, 5]


async def becomes(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_memory_and_files_of_a_sandbox_count_for_the_server() -> None:
    others = children_bytes()
    session = await bubblewrap().start(SMALL)
    pid = session._process.pid  # pyright: ignore[reportPrivateUsage]

    def files_bytes() -> int:
        return children_bytes() - others - used_memory_bytes(pid)

    await session.run("x = bytearray(b'x' * 50_000_000)")
    await becomes(lambda: children_bytes() - others > 50_000_000 and files_bytes() == 0)
    await session.write("f", bytes(1_000_000))
    await session.run("open('/tmp/f', 'wb').write(bytes(5_000_000))")
    await becomes(lambda: 6_000_000 <= files_bytes() < 6_100_000)
    await session.run("del x; import os; os.unlink('/tmp/f')")
    await becomes(lambda: 1_000_000 <= files_bytes() < 1_100_000)
    await session.close()
    assert children_bytes() <= others
    await asyncio.sleep(0.3)
    assert children_bytes() <= others


async def test_a_python_that_cannot_start_is_a_reason() -> None:
    bubblewrap()
    assert "cannot be run" in str(find_bubblewrap("/bin/false"))
    assert isinstance(find_bubblewrap("/nowhere/python"), str)


async def test_limits_that_leave_no_room_are_an_error() -> None:
    with pytest.raises(SandboxEnded, match="does not start"):
        await bubblewrap().start(SandboxLimits(processes=0))


def test_without_bubblewrap_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def which(_name: str) -> None:
        return None

    monkeypatch.setattr(shutil, "which", which)
    assert find_bubblewrap(None) == "bubblewrap (bwrap) is not installed"


def test_a_machine_with_unknown_system_calls_has_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert seccomp_programs() is None
