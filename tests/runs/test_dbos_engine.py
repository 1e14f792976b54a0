"""The durable engine within one process."""

import asyncio
import logging
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from dbos import DBOS

from antiphon.errors import SettingsError, StoreUnavailable, Unavailable, Unsupported
from antiphon.runs import dbos_engine, dbos_log, dbos_workflows
from antiphon.runs.dbos_engine import DbosEngine
from tests.runs.conftest import NewDbosEngine
from tests.runs.recorder import Recorder


def statuses(folder: Path) -> dict[str, str]:
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        return dict(connection.execute("SELECT workflow_uuid, status FROM workflow_status").fetchall())


async def until(folder: Path, expected: dict[str, str]) -> None:
    while statuses(folder) != expected:  # noqa: ASYNC110 - a database tells nobody
        await asyncio.sleep(0.01)


async def test_what_was_closed_in_the_middle_is_taken_up_by_the_next_engine(
    new_dbos_engine: NewDbosEngine,
) -> None:
    before, after = Recorder(), Recorder()
    engine = new_dbos_engine(before.work)
    await engine.submit("tenant", "a")
    await before.started("a")
    await engine.aclose()
    await new_dbos_engine(after.work).submit("tenant", "a")
    await after.started("a")
    await after.release("a")
    assert before.ended == set()


async def test_what_is_closed_is_left_unfinished(new_dbos_engine: NewDbosEngine, tmp_path: Path) -> None:
    recorder = Recorder()
    engine = new_dbos_engine(recorder.work)
    await engine.submit("tenant", "a")
    await recorder.started("a")
    await engine.aclose()
    assert statuses(tmp_path) == {"a": "PENDING"}


async def test_what_is_under_way_is_not_resumed(new_dbos_engine: NewDbosEngine, tmp_path: Path) -> None:
    recorder = Recorder()
    engine = new_dbos_engine(recorder.work)
    await asyncio.gather(engine.submit("tenant", "a"), engine.submit("tenant", "a"))
    assert statuses(tmp_path) == {"a": "PENDING"}


async def test_what_is_stopped_is_not_recovered(new_dbos_engine: NewDbosEngine, tmp_path: Path) -> None:
    recorder = Recorder()
    engine = new_dbos_engine(recorder.work)
    await engine.submit("tenant", "a")
    await recorder.started("a")
    await engine.stop("tenant", "a")
    await until(tmp_path, {"a": "SUCCESS"})


async def test_ended_workflows_are_forgotten(
    new_dbos_engine: NewDbosEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbos_workflows, "FORGET_EVERY", 0.01)
    monkeypatch.setattr(dbos_workflows, "FORGET_AT_ONCE", 2)
    recorder = Recorder()
    engine = new_dbos_engine(recorder.work)
    ended = ["a", "b", "c"]
    for response_id in [*ended, "d"]:
        await engine.submit("tenant", response_id)
    await recorder.started("d")
    await recorder.release(*ended)
    await until(tmp_path, {"d": "PENDING"})


async def test_a_second_engine_in_the_process_is_refused(
    new_dbos_engine: NewDbosEngine, tmp_path: Path
) -> None:
    recorder = Recorder()
    first = new_dbos_engine(recorder.work)
    await first.submit("tenant", "a")
    second = DbosEngine(str(tmp_path / "other.db"), recorder.work, owner="second")
    with pytest.raises(SettingsError, match="one durable engine"):
        await second.submit("tenant", "b")
    await second.aclose()
    await recorder.release("a")
    await first.aclose()
    third = new_dbos_engine(recorder.work)
    await third.submit("tenant", "c")
    await recorder.release("c")


async def test_a_dbos_of_other_code_in_the_process_is_left_alone(
    new_dbos_engine: NewDbosEngine, tmp_path: Path
) -> None:
    theirs = f"sqlite:///{tmp_path}/theirs.db"
    DBOS(config={"name": "theirs", "system_database_url": theirs, "executor_id": "theirs"})
    try:
        with pytest.raises(SettingsError, match="other code"):
            await new_dbos_engine(Recorder().work).submit("tenant", "a")
        assert DBOS.executor_id == "theirs"
    finally:
        DBOS.destroy()


async def test_the_executor_of_the_loop_of_the_server_stays_its_own(new_dbos_engine: NewDbosEngine) -> None:
    recorder = Recorder()
    engine = new_dbos_engine(recorder.work)
    await engine.submit("tenant", "a")
    await recorder.release("a")
    thread = await asyncio.to_thread(threading.current_thread)
    assert not thread.name.startswith("dbos")


async def test_what_is_normal_is_neither_printed_nor_logged(
    new_dbos_engine: NewDbosEngine,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dbos_log, "AGAIN_AFTER", 0.0)
    caplog.set_level(logging.DEBUG)
    recorder = Recorder()
    engine = new_dbos_engine(recorder.work)
    await engine.submit("tenant", "a")
    await engine.submit("tenant", "b")
    await recorder.started("a", "b")
    await engine.stop("tenant", "a")
    await engine.aclose()
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.name == "dbos"] == []


def test_a_complaint_is_not_logged_over_and_over() -> None:
    def record(line: int, second: float) -> logging.LogRecord:
        made = logging.LogRecord("dbos", logging.WARNING, "file.py", line, "away", None, None)
        made.created = second
        return made

    seldom = dbos_log.Seldom()
    times = [(1, 0.0), (1, 1.0), (2, 1.0), (1, 29.0), (1, 31.0), (1, 32.0)]
    assert [seldom.filter(record(*each)) for each in times] == [True, False, True, False, True, False]


async def test_without_dbos_background_is_refused_with_what_to_install(
    new_dbos_engine: NewDbosEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "antiphon.runs.dbos_thread", raising=False)
    monkeypatch.setitem(sys.modules, "dbos", None)
    with pytest.raises(Unsupported, match=r"pip install 'antiphon\[background\]'") as refusal:
        await new_dbos_engine(Recorder().work).submit("tenant", "a")
    assert refusal.value.param == "background"


async def test_a_start_that_failed_is_tried_again(tmp_path: Path) -> None:
    recorder = Recorder()
    engine = DbosEngine(str(tmp_path / "folder" / "runs.db"), recorder.work, owner="owner")
    with pytest.raises(StoreUnavailable):
        await engine.submit("tenant", "a")
    (tmp_path / "folder").mkdir()
    await engine.submit("tenant", "a")
    await recorder.release("a")
    await engine.aclose()


async def test_an_engine_can_be_closed_while_dbos_is_imported(new_dbos_engine: NewDbosEngine) -> None:
    recorder = Recorder()
    engine = new_dbos_engine(recorder.work)
    submission = asyncio.create_task(engine.submit("tenant", "a"))
    await asyncio.sleep(0)
    await engine.aclose()
    with pytest.raises(Unavailable):
        await submission
    assert recorder.starts == {}


async def test_an_engine_can_be_closed_while_dbos_is_launched(
    new_dbos_engine: NewDbosEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch() -> None:
        launching.set()
        closing.wait()
        really()

    really, launching, closing = DBOS.launch, threading.Event(), threading.Event()
    monkeypatch.setattr(DBOS, "launch", launch)
    engine = new_dbos_engine(Recorder().work)
    submission = asyncio.create_task(engine.submit("tenant", "a"))
    await asyncio.to_thread(launching.wait)
    closed = asyncio.create_task(engine.aclose())
    await asyncio.sleep(0)
    closing.set()
    await closed
    with pytest.raises(Unavailable):
        await submission
    recorder = Recorder()
    await new_dbos_engine(recorder.work).submit("tenant", "a")
    await recorder.release("a")


async def test_a_database_that_does_not_answer_is_a_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(dbos_engine, "SUBMITTED_WITHIN", 0.0)
    engine = DbosEngine(str(tmp_path / "runs.db"), recorder.work, owner="owner")
    with pytest.raises(StoreUnavailable):
        await engine.submit("tenant", "a")
    await engine.aclose()
