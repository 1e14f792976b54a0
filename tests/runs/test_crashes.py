"""The durable engine across processes that are killed."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import IO

import pytest

from antiphon.errors import StoreUnavailable
from antiphon.runs.dbos_engine import DbosEngine
from tests.postgres import PostgresServer
from tests.runs.recorder import DEADLOCK, Recorder

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


class Worker:
    """A process that runs `worker.py`."""

    def __init__(self, database: str, owner: str, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.runs.worker", database, owner],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, line: str) -> None:
        print(line, file=self._pipe(self.process.stdin), flush=True)

    def hear(self, line: str) -> list[str]:
        """Wait for it to say something; what it has said until then."""
        watch = threading.Timer(DEADLOCK, self.process.kill)
        watch.start()
        heard: list[str] = []
        while line not in heard:
            heard.append(self._pipe(self.process.stdout).readline().strip())
            assert heard[-1], f"it ended before it said {line!r}: {heard}"
        watch.cancel()
        return heard

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def leave(self) -> list[str]:
        """End it as a server ends; what else it said."""
        self._pipe(self.process.stdin).close()
        lines = self._pipe(self.process.stdout).read().splitlines()
        assert self.process.wait() == 0
        return lines

    def close(self) -> None:
        self.kill()
        self._pipe(self.process.stdout).close()
        self._pipe(self.process.stdin).close()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


Hire = Callable[..., Worker]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "runs.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database() as url:
        yield url


@pytest.fixture
def hire() -> Iterator[Hire]:
    """Starts workers, each with a new owner."""
    workers: list[Worker] = []
    numbers = count(1)

    def new(database: str, **environment: str) -> Worker:
        worker = Worker(database, f"owner-{next(numbers)}", environment)
        workers.append(worker)
        worker.hear("ready")
        return worker

    yield new
    for worker in workers:
        worker.close()


def left_in_the_middle(hire: Hire, database: str) -> None:
    worker = hire(database)
    worker.tell("submit resp_1")
    worker.hear("started resp_1")
    worker.kill()


def test_work_of_a_killed_process_is_done_by_the_next_one(database: str, hire: Hire) -> None:
    left_in_the_middle(hire, database)
    worker = hire(database)
    worker.tell("submit resp_1")
    worker.hear("started resp_1")
    worker.tell("release resp_1")
    worker.hear("ended resp_1")
    assert worker.leave() == []


def test_an_edit_of_the_workflow_does_not_strand_runs(hire: Hire, tmp_path: Path) -> None:
    database = str(tmp_path / "runs.db")
    left_in_the_middle(hire, database)
    shutil.copytree(ROOT / "src" / "antiphon", tmp_path / "antiphon")
    source = tmp_path / "antiphon" / "runs" / "dbos_workflows.py"
    source.write_text(source.read_text().replace('"""The workflow.', '"""The new workflow.'))
    worker = hire(database, PYTHONPATH=str(tmp_path))
    worker.tell("submit resp_1")
    worker.hear("started resp_1")


def test_of_two_processes_that_take_up_the_same_work_one_does_it(
    postgres: PostgresServer, hire: Hire
) -> None:
    with postgres.database() as url:
        left_in_the_middle(hire, url)
        first, second = hire(url), hire(url)
        first.tell("submit one")  # so that the engines of both run
        second.tell("submit two")
        said = first.hear("submitted one") + second.hear("submitted two")
        for worker in (first, second):
            worker.tell("submit resp_1")
        for worker in (first, second):
            said += worker.hear("submitted resp_1")
            worker.tell("release resp_1")
        question = "SELECT status FROM dbos.workflow_status WHERE workflow_uuid = 'resp_1'"
        while postgres.execute(question, url) != "SUCCESS":
            time.sleep(0.05)
        said += first.leave() + second.leave()
        assert [line for line in said if line == "started resp_1"] == ["started resp_1"]


async def test_a_database_that_is_gone_is_a_503_at_once_and_can_come_back(postgres: PostgresServer) -> None:
    recorder = Recorder()
    with postgres.database() as url:
        engine = DbosEngine(url, recorder.work, owner="owner")
        await engine.submit("tenant", "a")
        await recorder.started("a")
        postgres.stop()
        try:
            with pytest.raises(StoreUnavailable):
                await engine.submit("tenant", "b")
        finally:
            postgres.start()
        await engine.submit("tenant", "b")
        await recorder.release("a", "b")
        await engine.aclose()
