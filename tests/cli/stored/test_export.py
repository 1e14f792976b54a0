"""The target of an export: it replaces a plain file once it is complete, and never anything else."""

import os
import threading
from pathlib import Path

from antiphon.cli.stored.export import export_to
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from tests.store.values import turn


async def stored() -> Stores:
    store = sql_stores(await SqliteDatabase.open(None), LocalSignals(), lambda: 1000.0)
    await store.responses.save("default", turn("1"))
    return store


async def test_a_link_remains_a_link_and_other_files_remain(tmp_path: Path) -> None:
    store, target, link = await stored(), tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    neighbour = tmp_path / "link.jsonl.part"
    target.write_text("old")
    neighbour.write_text("mine")
    link.symlink_to(target)
    assert await export_to(link, store.responses, "default") == 1
    await store.aclose()
    assert link.is_symlink()
    assert target.read_text().startswith('{"response"')
    assert neighbour.read_text() == "mine"
    assert not any(name.startswith(".") for name in os.listdir(tmp_path)), "no temporary file remains"


async def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    store, pipe, lines_read = await stored(), tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: lines_read.append(pipe.read_text()))
    reader.start()
    assert await export_to(pipe, store.responses, "default") == 1
    await store.aclose()
    reader.join(10)
    assert lines_read[0].startswith('{"response"')
    assert pipe.is_fifo()
