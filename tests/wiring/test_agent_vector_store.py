"""The agent searches a vector store that the server keeps in step with its folders."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import DEFAULT_TENANT, Caller
from antiphon.errors import SettingsError
from antiphon.orchestrator.models import AgentExecuteRequest
from antiphon.service.routing.router import Route
from antiphon.settings import (
    AgentSettings,
    SealSettings,
    Settings,
    StoreSettings,
    UpstreamSettings,
)
from antiphon.settings.sections import EmbeddingsSettings
from antiphon.store.base import Page
from antiphon.wiring.application import open_agents
from tests.embeddings.embedding_server import run_embedding_server


@pytest.fixture(autouse=True)
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "holidays.md").write_text("# Holidays\n\nEverybody has 28 days of leave.\n")
    return tmp_path / "docs"


def settings(url: str = "http://127.0.0.1:9/v1", store: str = "memory:", **agent: Any) -> Settings:
    return Settings(
        upstreams=(UpstreamSettings(base_url=url, embedding_models=("theirs",)),),
        embeddings=EmbeddingsSettings(local=False),
        store=StoreSettings(url=store),
        seal=SealSettings(key="k" * 32),
        agent=AgentSettings(model="m", vector_store="handbook", **agent),
    )


async def test_an_answer_names_the_files_of_the_store_as_its_sources() -> None:
    backend = ScriptedBackend.saying("28 days.")
    async with (
        run_embedding_server() as model,
        open_agents(settings(model.url, documents=("docs",)), [Route("m", backend)]) as served,
    ):
        caller = Caller.of(DEFAULT_TENANT)
        request = AgentExecuteRequest(instruction="How many days of leave do I have?")
        assert served.agents is not None
        response = await served.agents.agent.perform(caller, request)
        [store], _ = await served.services.vector_stores.list(caller, Page())
    [source] = response.sources
    assert (source.path, source.start, source.symbol) == ("docs/holidays.md", 1, "Holidays")
    assert "Everybody has 28 days of leave." in str(backend.turns[0])
    assert (store.name, store.model, store.file_counts.completed) == ("handbook", "theirs", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"agent\.documents"),
        ({"documents": ("docs",), "store": "none"}, r"store\.url"),
        ({"documents": ("missing",)}, "does not exist"),
    ],
)
async def test_settings_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        async with open_agents(settings(**options), [Route("m", ScriptedBackend([]))]):
            pass
