"""The public names, which other packages import, and the modules that they load."""

import subprocess
import sys

import pytest

import antiphon.orchestrator

NAMES = (
    "ConversationContext",
    "AgentExecuteRequest",
    "AgentExecuteResponse",
    "AgentToolCall",
    "LlmUsage",
    "SourceRef",
    "FileBundle",
    "FileBundleItem",
    "ActiveFile",
    "RagChunk",
    "build_responses_request",
    "build_rag_context_block",
    "build_tool_usage_block",
    "build_tool_results_block",
    "map_response",
    "map_error",
    "Provider",
    "Tool",
    "ToolCall",
    "TurnResult",
    "run_orchestrator",
    "ToolRegistry",
    "ServerTool",
    "execute",
    "HttpResponsesClient",
    "InProcessResponsesClient",
)

SERVERS = ("antiphon.server", "antiphon.service", "antiphon.wiring", "antiphon.store", "uvicorn", "click")


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after this code."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_can_be_imported_and_has_that_name(name: str) -> None:
    found = getattr(antiphon.orchestrator, name)
    assert callable(found)
    assert found.__name__ == name


def test_the_list_of_public_names_is_complete() -> None:
    assert sorted(antiphon.orchestrator.__all__) == sorted(NAMES)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = antiphon.orchestrator.nothing  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_package_loads_none_of_its_modules() -> None:
    loaded = loaded_by("import antiphon.orchestrator")
    assert [name for name in loaded if name.startswith("antiphon.orchestrator.")] == []


def test_no_public_name_loads_a_server_or_a_store() -> None:
    loaded = loaded_by("from antiphon.orchestrator import *")
    assert "antiphon.orchestrator.reasoner" in loaded
    assert [name for name in SERVERS if name in loaded] == []
