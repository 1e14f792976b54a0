"""Programs in Monty that fill its folder, its memory or its time, and how such a sandbox ends."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from antiphon.sandbox.folder import ENTRY_BYTES, MAX_WALKED, FileFolder
from antiphon.sandbox.monty import Monty, MontySession
from antiphon.sandbox.port import MIB, SandboxEnded, SandboxFile, SandboxFileError, SandboxLimits

pytestmark = pytest.mark.requirement("HOSTED/containers-monty")

LIMITS = SandboxLimits(memory_bytes=64 * MIB, disk_bytes=32 * MIB, run_seconds=20, output_bytes=10_000)


def nested(rounds: int) -> str:
    """A program that makes 59 folders in each round, and moves all earlier ones into the deepest."""
    return f"""
from pathlib import Path
D = '/mnt/data/b/' + '/'.join(['a'] * 58)
Path('/mnt/data/a').mkdir()
Path('/mnt/data/a/deepest').write_text('x')
for k in range({rounds}):
    Path(D).mkdir(parents=True)
    Path('/mnt/data/a').rename(D + '/a')
    Path('/mnt/data/b').rename('/mnt/data/a')
"""


HIDE = "Path('/mnt/data/a').rename('/mnt/data/.a')\n"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the sandbox makes its own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
async def session(temporary: Path) -> AsyncGenerator[MontySession, None]:
    assert not os.listdir(temporary)
    started = await Monty().start(LIMITS)
    yield started
    await started.close()


@pytest.mark.parametrize("end", ["", HIDE])
async def test_folders_deeper_than_the_recursion_limit_are_walked_and_deleted(
    session: MontySession, temporary: Path, end: str
) -> None:
    result = await session.run(nested(25) + end)
    assert result.outcome == "completed"
    names = [file.name for file in await session.files()]
    assert [name.count("/") for name in names] == ([] if end else [25 * 59 + 1])
    assert (await session.run("print('alive')")).logs == "alive\n"
    await session.close()
    assert not os.listdir(temporary)


@pytest.mark.parametrize("end", ["", HIDE])
async def test_folders_deeper_than_a_path_can_be_long_end_the_sandbox(
    session: MontySession, temporary: Path, end: str
) -> None:
    with pytest.raises(SandboxEnded, match="cannot be counted"):
        await session.run(nested(45) + end)
    assert not session.running
    assert not os.listdir(temporary)


def test_a_folder_without_permissions_is_deleted(tmp_path: Path) -> None:
    root = tmp_path / "root"
    locked = root / "a" / "locked"
    locked.mkdir(parents=True)
    (locked / "file").write_text("x")
    locked.chmod(0o500)
    (root / "a").chmod(0)
    FileFolder(root, MIB).delete_all()
    assert not root.exists()


def test_a_file_whose_path_is_too_long_ends_the_sandbox(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    length = len(str(tmp_path))
    while length < 3900:
        os.mkdir("a" * 100, dir_fd=folder)
        inner = os.open("a" * 100, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder, length = inner, length + 101
    os.close(os.open("b" * 250, os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    files = FileFolder(tmp_path, MIB)
    for walk in (files.stamps, files.room_bytes):
        with pytest.raises(SandboxEnded, match="cannot be counted"):
            walk()
    files.delete_all()
    assert not tmp_path.exists()


def test_nothing_is_written_after_the_end(tmp_path: Path) -> None:
    folder = FileFolder(tmp_path / "root", MIB)
    (tmp_path / "root").mkdir()
    folder.delete_all()
    with pytest.raises(SandboxEnded):
        folder.write("a/b", b"c", 0)
    assert not (tmp_path / "root").exists()


def test_a_folder_that_cannot_be_deleted_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    FileFolder(tmp_path / "missing", MIB).delete_all()
    assert "were not deleted" in caplog.text


def test_each_entry_counts(tmp_path: Path) -> None:
    folder = FileFolder(tmp_path, MIB)
    folder.write("a/b", b"cd", 0)
    assert folder.room_bytes() == MIB - 2 * ENTRY_BYTES - 2


async def test_too_many_files_end_the_sandbox(session: MontySession, temporary: Path) -> None:
    code = f"""
from pathlib import Path
for n in range({MAX_WALKED + 1}):
    Path(f'/mnt/data/{{n}}').mkdir()
"""
    with pytest.raises(SandboxEnded, match="too many files"):
        await session.run(code)
    assert not session.running
    assert not os.listdir(temporary)


def test_a_file_too_many_is_refused(tmp_path: Path) -> None:
    for number in range(MAX_WALKED - 1):
        (tmp_path / str(number)).touch()
    folder = FileFolder(tmp_path, 64 * MIB)
    folder.write("last", b"x", 0)
    with pytest.raises(SandboxFileError, match="too many"):
        folder.write("other", b"x", 0)
    assert len(folder.stamps()) == MAX_WALKED


async def test_a_forged_time_limit_keeps_the_interpreter(session: MontySession) -> None:
    for error in ("ValueError", "TimeoutError"):
        forged = await session.run(f"x = 1\nraise {error}('feed time limit exceeded: 1s > 1s')")
        assert forged.outcome == "raised"
    assert (await session.run("x")).logs == "1\n"


async def test_operations_that_are_used_up_are_named_and_given_again(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr("antiphon.sandbox.monty.MAX_HOST_CALLS", 50)
    session = await Monty().start(LIMITS)
    result = await session.run(
        "from pathlib import Path\nPath('/mnt/data/a').mkdir()\nwhile True:\n    Path('/mnt/data/a').exists()"
    )
    assert result.outcome == "died"
    assert "The 50 operations on files that one Python process has are used up." in result.logs
    assert (await session.run("from pathlib import Path\nPath('/mnt/data/a').exists()")).logs == "True\n"
    await session.close()
    assert not os.listdir(temporary)


async def test_the_text_of_an_exception_is_bounded() -> None:
    limits = SandboxLimits(run_seconds=20)
    session = await Monty().start(limits)
    large = await session.run("raise ValueError('x' * 200_000_000)")
    assert large.outcome in ("raised", "died")
    assert "MemoryError" in large.logs
    long = await session.run("raise ValueError('x' * 1_000_000 + 'end')")
    assert long.outcome == "raised"
    assert long.logs.startswith("Traceback")
    assert long.logs.endswith("xend\n")
    assert len(long.logs) < 21_000
    await session.close()


async def test_an_allocation_that_ends_the_process_is_followed_by_a_new_one(session: MontySession) -> None:
    await session.write("kept", b"abc")
    result = await session.run("raise ValueError('x' * 50_000_000)")
    assert (result.outcome, "MemoryError" in result.logs) == ("died", True)
    assert (await session.run("open('/mnt/data/kept').read()")).logs == "'abc'\n"


async def test_closing_ends_a_program_that_runs(session: MontySession, temporary: Path) -> None:
    running = asyncio.create_task(session.run("open('/mnt/data/begun', 'w').write('x')\nwhile True: pass"))
    await asyncio.to_thread(wait_for_a_file, temporary)
    assert children()
    await session.close()
    with pytest.raises(SandboxEnded, match="it was closed"):
        await running
    assert not session.running
    assert not os.listdir(temporary)
    assert not children()


async def test_a_program_can_be_closed_twice_at_once(session: MontySession, temporary: Path) -> None:
    await session.write("a", b"b")
    assert await session.files() == (SandboxFile("a", 1),)
    await asyncio.gather(session.close(), session.close())
    assert not os.listdir(temporary)


async def test_a_folder_that_cannot_be_made_is_no_sandbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(SandboxEnded, match="no folder"):
        await Monty().start(LIMITS)


async def test_a_program_that_is_missing_is_no_sandbox(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    def missing(**_options: int) -> None:
        raise FileNotFoundError("monty binary not found")

    monkeypatch.setattr("pydantic_monty.AsyncMonty", missing)
    with pytest.raises(SandboxEnded, match="does not start"):
        await Monty().start(LIMITS)
    assert not os.listdir(temporary)


def wait_for_a_file(folder: Path) -> None:
    while not list(folder.glob("*/begun")):
        time.sleep(0.01)


def children() -> list[str]:
    """The processes that this one has started, and that have not ended."""
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            try:
                name, state = Path("/proc", pid, "stat").read_text().split("(")[1].rsplit(")", 1)
            except OSError:
                continue
            if "monty" in name and not state.strip().startswith("Z"):
                found.append(pid)
    return found
