"""From the settings to the agent: its model, its tools, and rejections at startup."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import DEFAULT_TENANT, Caller
from antiphon.errors import SettingsError
from antiphon.orchestrator.models import AgentExecuteRequest
from antiphon.retrieval.folders import FolderRetriever
from antiphon.retrieval.scope import Scope
from antiphon.service.routing.router import Route
from antiphon.settings import (
    AgentSettings,
    ModeSettings,
    SealSettings,
    Settings,
    StoreSettings,
    UpstreamSettings,
)
from antiphon.settings.sections import EmbeddingsSettings
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta
from antiphon.wiring import agent as wiring_agent
from antiphon.wiring import embeddings as wiring_embeddings
from antiphon.wiring.agent import make_agent, open_agent, serve_agent
from antiphon.wiring.application import open_services
from antiphon.wiring.embeddings import open_embedders


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def greet(name: str) -> str:
    """Say hello."""
    return f"Hello {name}."


def test_an_agent_without_settings_offers_file_tools_where_files_are_changed_and_no_documents() -> None:
    agent = make_agent(AgentSettings())
    assert agent.modes.default.key == "general"
    offered = {mode.key: set(mode.tools) for mode in agent.list_modes()}
    assert offered["code_edit"] == {"write_file", "edit_file", "delete_file", "read_active_file"}
    assert (offered["general"], offered["qa"]) == (set(), set())
    assert agent.retriever is None


def test_a_model_can_switch_modes_if_the_user_defines_some() -> None:
    assert "agent_change_mode" not in make_agent(AgentSettings()).tools
    settings = AgentSettings(modes={"mine": ModeSettings(when_to_use="Always.")})
    assert "agent_change_mode" in make_agent(settings).tools


def test_the_tools_of_design_documents_belong_to_their_modes() -> None:
    agent = make_agent(AgentSettings())
    modes = {mode.key: {tool.name for tool in agent.tools.for_mode(mode)} for mode in agent.modes.all()}
    assert "ddr_document" in modes["ddr_creation"]
    assert not any(name.startswith("ddr_") for name in modes["general"])


def test_design_documents_need_no_folder_until_one_is_written(tmp_path: Path) -> None:
    make_agent(AgentSettings())
    assert list(tmp_path.iterdir()) == []


def test_every_setting_reaches_the_agent() -> None:
    Path("docs").mkdir()
    agent = make_agent(
        AgentSettings(
            model="m",
            system="Be brief.",
            temperature=0.5,
            max_turns=3,
            tool_deadline=4.0,
            max_tool_output=5000,
            max_context=6000,
            chunks=7,
            tools=("tests.wiring.test_agent:greet",),
            documents=("docs",),
            default_mode="mine",
            modes={"mine": ModeSettings(when_to_use="Always.", tools=("greet",))},
        )
    )
    assert (agent.context.model_name, agent.context.system, agent.context.temperature) == (
        "m",
        "Be brief.",
        0.5,
    )
    limits = agent.limits
    assert (limits.max_turns, limits.tool_deadline, limits.max_tool_output) == (3, 4.0, 5000)
    assert (limits.max_context, limits.chunks) == (6000, 7)
    assert "greet" in agent.tools
    assert agent.modes.default.key == "mine"
    assert agent.retriever is not None


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (AgentSettings(tools=("nowhere.at.all:tool",)), "nowhere.at.all"),
        (AgentSettings(tools=("tests.wiring.test_agent:missing",)), "missing"),
        (AgentSettings(tools=("tests.wiring.test_agent:greet",) * 2), "greet"),
        (AgentSettings(documents=("nowhere",)), "nowhere"),
        (AgentSettings(default_mode="none"), "none"),
        (AgentSettings(modes={"Bad Key": ModeSettings(when_to_use="x")}), "Bad Key"),
        (AgentSettings(modes={"m": ModeSettings(when_to_use="")}), "when_to_use"),
        (AgentSettings(modes={"m": ModeSettings(when_to_use="x", tools=("nothing",))}), "nothing"),
        (AgentSettings(modes={"m": ModeSettings(when_to_use="x", tool_choice="nothing")}), "nothing"),
        (
            AgentSettings(modes={"m": ModeSettings(when_to_use="x", tool_choice="write_file")}),
            "does not offer",
        ),
        (
            AgentSettings(modes={"m": ModeSettings(when_to_use="x", tools=(), tool_choice="write_file")}),
            "does not offer",
        ),
        (
            AgentSettings(
                modes={
                    "ddr_search": ModeSettings(when_to_use="x", tools=("ddr_list",), tool_choice="ddr_read")
                }
            ),
            "does not offer",
        ),
        (AgentSettings(modes={"m": ModeSettings(when_to_use="x", rag_scope={"must": 5})}), "must"),
    ],
)
def test_invalid_settings_are_rejected_at_startup(settings: AgentSettings, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        make_agent(settings)


def test_a_mode_may_want_a_tool_that_it_offers() -> None:
    chosen = ModeSettings(when_to_use="x", tools=("write_file",), tool_choice="write_file")
    switching = ModeSettings(when_to_use="x", tools=(), tool_choice="agent_change_mode")
    modes = make_agent(AgentSettings(modes={"m": chosen, "s": switching})).modes
    assert {"m", "s"} < {mode.key for mode in modes.all()}


async def test_documents_are_found_wherever_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tea.md").write_text("Tea is made with hot water.\n")
    for here, documents, path_shown in ((".", "docs", "docs/tea.md"), ("here", "../docs", "docs/tea.md")):
        (tmp_path / here).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / here)
        async with open_agent(AgentSettings(documents=(documents,))) as agent:
            assert agent.retriever is not None
            found = await agent.retriever.retrieve("hot tea", scope=Scope(), limit=3)
            assert [chunk.path for chunk in found] == [path_shown]


async def test_the_document_reader_is_closed_with_the_agent() -> None:
    async with open_agent(AgentSettings(documents=(".",))) as agent:
        assert agent.retriever is not None
        await agent.retriever.retrieve("tea", scope=Scope(), limit=3)
    with pytest.raises(RuntimeError, match="shutdown"):
        await agent.retriever.retrieve("tea", scope=Scope(), limit=3)


async def test_a_served_agent_acts_as_the_requesting_tenant() -> None:
    settings = Settings(store=StoreSettings(url="memory:"), seal=SealSettings(key="k"))
    routes = [Route("m", ScriptedBackend.saying("Hello"))]
    async with open_services(settings, routes) as services:
        served = serve_agent(make_agent(AgentSettings(model="m")), services)
        answer = await served.perform(Caller.of("acme"), AgentExecuteRequest(instruction="Hi"))
        assert answer.text == "Hello"
        [stored] = await services.store.responses.list_responses("acme", limit=10)
        assert stored.response.id == answer.response_continuation_id


def test_design_documents_are_the_operators() -> None:
    agent = make_agent(AgentSettings())
    offered = {mode.key: mode.tools for mode in agent.list_modes("acme")}
    assert "ddr_read" not in offered["ddr_search"]
    assert "ddr_read" in {mode.key: mode.tools for mode in agent.list_modes(DEFAULT_TENANT)}["ddr_search"]


async def test_an_agent_of_a_stateless_server_uses_its_tools_within_a_request() -> None:
    settings = Settings(store=StoreSettings(url="none"), seal=SealSettings(key="k"))
    call = [CallStarted(0, "c1", "greet"), CallDelta(0, '{"name": "Ada"}'), Finished("tool_calls")]
    backend = ScriptedBackend([call], [[TextDelta("Done."), Finished("stop")]])
    agent = make_agent(AgentSettings(model="m", tools=(f"{__name__}:greet",)))
    async with open_services(settings, [Route("m", backend)]) as services:
        served = serve_agent(agent, services)
        answer = await served.perform(Caller.of("t"), AgentExecuteRequest(instruction="Greet Ada."))
    assert (answer.kind, answer.text, answer.tool_calls[0].result_json) == ("ok", "Done.", "Hello Ada.")


@pytest.mark.parametrize(
    ("ranking", "local", "installed", "expected"),
    [
        ("auto", None, True, True),
        ("auto", None, False, False),
        ("auto", False, True, False),
        ("lexical", None, True, False),
        ("hybrid", None, True, True),
        ("hybrid", None, False, SettingsError),
    ],
)
async def test_documents_are_ranked_as_set(
    monkeypatch: pytest.MonkeyPatch, ranking: Any, local: bool | None, installed: bool, expected: object
) -> None:
    asked: list[object] = []

    class Noted(FolderRetriever):
        def __init__(self, *folders: Any, vectors: object = None, **fields: Any) -> None:
            asked.append(vectors)
            super().__init__(*folders, **fields)

    for module in (wiring_agent, wiring_embeddings):
        monkeypatch.setattr(module, "is_installed", lambda: installed)
    monkeypatch.setattr(wiring_agent, "FolderRetriever", Noted)
    settings = AgentSettings(documents=(".",), ranking=ranking)
    async with open_embedders(Settings(embeddings=EmbeddingsSettings(local=local))) as embedders:
        if expected is SettingsError:
            with pytest.raises(SettingsError, match=r"agent\.ranking.*(retrieval|make -C)"):
                make_agent(settings, embedders)
            return
        make_agent(settings, embedders)
    assert [vectors is not None for vectors in asked] == [expected]


async def test_documents_are_not_sent_to_an_upstream_unless_that_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wiring_embeddings, "is_installed", lambda: True)
    upstream = UpstreamSettings(base_url="http://127.0.0.1:9/v1", embedding_models=("theirs",))
    async with open_embedders(Settings(upstreams=(upstream,))) as embedders:
        bundled, default = embedders.find_bundled(), embedders.find_default()
    assert bundled is not None
    assert default is not None
    assert (bundled.model, default.model) == ("all-minilm-l6-v2", "theirs")
