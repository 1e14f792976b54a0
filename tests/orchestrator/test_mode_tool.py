"""`agent_change_mode`."""

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.modes import BUILT_IN, Modes, mode_tool
from antiphon.orchestrator.tool import ToolResult
from antiphon.tools.invocation import ToolArgumentsInvalid, invoke

TOOL = mode_tool(Modes(BUILT_IN))


def test_the_declaration_matches_the_document() -> None:
    assert TOOL.name == "agent_change_mode"
    assert sorted(TOOL.parameters["required"]) == ["branch", "mode", "reason"]
    assert not TOOL.side_effects
    assert TOOL.usage


async def test_the_change_is_reported_to_the_model_and_the_run() -> None:
    result = await invoke(TOOL, '{"mode":"DDR_REVIEW","branch":false,"reason":"A review."}')
    assert isinstance(result, ToolResult)
    assert result.mode == "ddr_review"
    assert msgspec.json.decode(result.output) == {
        "success": True,
        "mode": "ddr_review",
        "branch": False,
        "reason": "A review.",
    }


@pytest.mark.parametrize("missing", ["mode", "branch", "reason"])
async def test_every_argument_is_required(missing: str) -> None:
    arguments = {"mode": "general", "branch": True, "reason": "So."}
    del arguments[missing]
    with pytest.raises(ToolArgumentsInvalid, match=missing):
        await invoke(TOOL, msgspec.json.encode(arguments).decode())


@pytest.mark.parametrize("mode", ["nowhere", "", " "])
async def test_an_unknown_mode_is_rejected_with_the_known_ones(mode: str) -> None:
    arguments = msgspec.json.encode({"mode": mode, "branch": False, "reason": "So."}).decode()
    with pytest.raises(InvalidRequest, match="general, qa, code_edit, ddr_creation, ddr_review, ddr_search"):
        await invoke(TOOL, arguments)


async def test_a_blank_reason_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="reason"):
        await invoke(TOOL, '{"mode":"general","branch":false,"reason":" "}')
