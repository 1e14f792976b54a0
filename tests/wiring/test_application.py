"""The assembled services: one store, one engine, two kinds of jobs."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.errors import Unsupported
from antiphon.orchestrator.models import AgentExecuteRequest
from antiphon.orchestrator.run_tree import response_of, tree_of
from antiphon.service.routing.router import Route
from antiphon.service.tenant_service import TenantService
from antiphon.settings import SealSettings, ServerSettings, Settings, StoreSettings
from antiphon.wiring import open_agents
from antiphon.wiring.application import pool_limits

REQUEST = AgentExecuteRequest(instruction="Say it.")

CALLER = Caller.of("t")


def settings_for(url: str) -> Settings:
    return Settings(store=StoreSettings(url=url), seal=SealSettings(key="k"))


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_one_engine_makes_responses_and_does_runs_of_agents() -> None:
    routes = [Route("m", ScriptedBackend.saying("Said."))]
    async with asyncio.timeout(30), open_agents(settings_for("memory:"), routes) as served:
        assert served.agents is not None
        runs, tenant = served.agents.runs, TenantService(served.services, Caller.of("t"))
        queued = await tenant.create(model="m", input="x", background=True)
        run = await runs.submit(CALLER, REQUEST)
        assert [event async for event in tenant.follow(queued.id)]
        async with aclosing(runs.follow(CALLER, run.id)) as events:
            run_events = [event async for event in events if event is not None]
        answer = response_of(run_events)
        assert answer is not None
        assert (answer.kind, answer.text) == ("ok", "Said.")
        assert tree_of(run_events).turns[0].response_id == answer.response_continuation_id
        assert (await runs.show(CALLER, run.id)).run.status == "completed"


async def test_without_a_store_no_run_is_begun() -> None:
    routes = [Route("m", ScriptedBackend.saying("Said."))]
    async with open_agents(settings_for("none"), routes) as served:
        assert served.agents is not None
        with pytest.raises(Unsupported, match="store"):
            await served.agents.runs.submit(CALLER, REQUEST)


@pytest.mark.parametrize(("ceiling_mb", "child_mb"), [(0, 128), (2000, 128), (400, 80), (100, 64)])
def test_a_child_process_has_a_part_of_the_memory(ceiling_mb: int, child_mb: int) -> None:
    settings = Settings(server=ServerSettings(max_memory=ceiling_mb * 2**20))
    assert pool_limits(settings).memory_bytes == child_mb * 2**20
