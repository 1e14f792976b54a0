from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import pytest

from antiphon.runs.base import Engine, Work
from antiphon.runs.dbos_engine import DbosEngine
from antiphon.runs.tasks import TaskEngine

NewDbosEngine = Callable[[Work], DbosEngine]
NewEngine = Callable[[Work], Engine]


@pytest.fixture
async def new_dbos_engine(tmp_path: Path) -> AsyncIterator[NewDbosEngine]:
    """Makes engines on one SQLite file, each with a new owner as after a restart."""
    engines: list[DbosEngine] = []
    numbers = count(1)

    def new(work: Work) -> DbosEngine:
        engine = DbosEngine(str(tmp_path / "runs.db"), work, owner=f"owner-{next(numbers)}", first_pause=0.01)
        engines.append(engine)
        return engine

    yield new
    for engine in engines:
        await engine.aclose()


@pytest.fixture(params=["tasks", "dbos"])
async def new_engine(
    request: pytest.FixtureRequest, new_dbos_engine: NewDbosEngine
) -> AsyncIterator[NewEngine]:
    """Every engine."""
    engines: list[TaskEngine] = []

    def new(work: Work) -> Engine:
        engine = TaskEngine(work, owner="owner", first_pause=0.01)
        engines.append(engine)
        return engine

    yield new_dbos_engine if request.param == "dbos" else new
    for engine in engines:
        await engine.aclose()
