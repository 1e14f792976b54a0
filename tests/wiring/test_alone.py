"""One process works in the background on a file; the others are told so."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.errors import Unavailable
from antiphon.runs.tasks import TaskEngine
from antiphon.wiring.alone import SoleEngine

HOLD = """
import sys
from pathlib import Path
from antiphon.runs.tasks import TaskEngine
from antiphon.wiring.alone import SoleEngine
engine = SoleEngine(TaskEngine(None, owner="other"), Path(sys.argv[1]))
assert engine.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def engine(lock: Path, done: list[str]) -> SoleEngine:
    async def work(_tenant: str, response_id: str) -> None:
        done.append(response_id)

    return SoleEngine(TaskEngine(work, owner="me"), lock)


async def test_who_has_the_lock_works(tmp_path: Path) -> None:
    sole = engine(tmp_path / "lock", done := list[str]())
    assert sole.owner == "me"
    assert sole.acquire()
    assert sole.acquire()
    await sole.submit("t", "resp_1")
    await sole.stop("t", "resp_1")
    await sole.aclose()
    assert done in ([], ["resp_1"])


async def test_work_is_refused_until_the_process_that_has_the_lock_is_gone(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    sole = engine(tmp_path / "lock", [])
    with pytest.raises(Unavailable, match="Another process"):
        await sole.submit("t", "resp_1")
    holder.kill()
    holder.wait()
    await sole.submit("t", "resp_1")
    await sole.aclose()
