"""The built-in modes, and the modes of the settings."""

import pytest

from antiphon.errors import SettingsError
from antiphon.orchestrator.modes import modes_from
from antiphon.settings import AgentSettings, ModeSettings


def test_of_the_built_in_modes_only_writing_a_document_forces_its_tool() -> None:
    modes = modes_from(AgentSettings())
    assert {mode.key: mode.tool_choice for mode in modes.all()} == {
        "general": None,
        "qa": None,
        "code_edit": None,
        "ddr_creation": "ddr_document",
        "ddr_review": None,
        "ddr_search": None,
    }
    assert modes.default.key == "general"


def test_configured_modes_are_added_and_replace_built_in_ones() -> None:
    mine = ModeSettings(
        when_to_use="Always.",
        display_name="Mine",
        instructions=("Be brief.",),
        tools=("look",),
        tool_choice="look",
        retrieves=False,
        rag_scope={"must": []},
        max_turns=3,
    )
    modes = modes_from(AgentSettings(modes={"general": ModeSettings(when_to_use="Seldom."), "mine": mine}))
    general, found = modes.find("general"), modes.find("MINE")
    assert general is not None
    assert found is not None
    assert (general.when_to_use, general.tool_choice) == ("Seldom.", None)
    assert (found.display_name, found.instructions, found.tools, found.tool_choice) == (
        "Mine",
        ("Be brief.",),
        ("look",),
        "look",
    )
    assert (found.retrieves, found.rag_scope, found.max_turns) == (False, {"must": []}, 3)


def test_the_default_mode_must_exist() -> None:
    assert modes_from(AgentSettings(default_mode="ddr_review")).default.key == "ddr_review"
    with pytest.raises(SettingsError, match="nowhere"):
        modes_from(AgentSettings(default_mode="nowhere"))
