"""The modes of AGN-001, from the request to the file: the reasoner, our service, a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon import Antiphon, Route, ScriptedBackend
from antiphon.backends.scripted import Step
from antiphon.orchestrator import AgentExecuteRequest, AgentExecuteResponse, InProcessResponsesClient, execute
from antiphon.orchestrator.documents.document import parse
from antiphon.orchestrator.documents.entry import Draft
from antiphon.orchestrator.documents.library import Library
from antiphon.orchestrator.documents.tools import current_ddr_block, ddr_tools
from antiphon.settings import Settings, StoreSettings
from antiphon.tools.registry import ToolRegistry
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta
from antiphon.turn.context import TurnTool

BODY = "## Objective\n\nRetry twice."
DONE: list[Step] = [[TextDelta("Done."), Finished("stop")]]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.chdir(tmp_path)
    return Library(Path("docs/ddr"))


def calls(name: str, **arguments: Any) -> list[Step]:
    return [[CallStarted(0, "", name), CallDelta(0, json.dumps(arguments)), Finished("tool_calls")]]


async def run(
    library: Library, backend: ScriptedBackend, mode: str, instruction: str
) -> AgentExecuteResponse:
    settings = Settings(store=StoreSettings(url="memory:"))
    async with Antiphon(settings, routes=[Route("m", backend)]) as antiphon:
        return await execute(
            AgentExecuteRequest(mode=mode, instruction=instruction),
            client=InProcessResponsesClient(antiphon, model="m"),
            tools=ToolRegistry(ddr_tools(library)),
        )


def forced(backend: ScriptedBackend) -> str:
    choice = backend.turns[0].choice
    assert isinstance(choice, TurnTool)
    return choice.name


async def test_ddr_creation_makes_a_document(library: Library) -> None:
    written = calls("ddr_document", title="Retries", status="Proposed", markdownBody=BODY)
    backend = ScriptedBackend(written, DONE)
    response = await run(library, backend, "DDR_CREATION", "Write down that we retry twice.")
    assert (response.kind, response.text, response.warnings) == ("ok", "Done.", ())
    assert forced(backend) == "ddr_document"
    assert library.find("DDR-1").parsed().body == BODY
    (call,) = response.tool_calls
    assert json.loads(call.result_json or "")["path"] == "docs/ddr/DDR-001 - Retries.md"
    assert response.file_bundle is None


async def test_ddr_creation_refines_through_the_file_bundle(library: Library) -> None:
    before = library.create("AGN", Draft(title="Retries", body="Retry once."))
    written = calls("ddr_document", id="AGN-001", title="Retries", status="Accepted", markdownBody=BODY)
    backend = ScriptedBackend(written, DONE)
    instruction = f"Twice, and accept it.\n\n{current_ddr_block(before.text)}"
    response = await run(library, backend, "DDR_CREATION", instruction)
    assert response.file_bundle is not None
    (item,) = response.file_bundle.files
    assert (item.action, item.path) == ("replace", "docs/ddr/AGN-001 - Retries.md")
    assert library.find("AGN-1") == before
    assert parse(item.contents or "", before.name).status == "Accepted"


async def test_ddr_review_and_ddr_search_answer_with_their_tools_and_write_nothing(library: Library) -> None:
    before = library.create("AGN", Draft(title="Retries"))
    finding = {"requirement": "Retries twice", "state": "Satisfied"}
    review = ScriptedBackend(calls("ddr_review", id="AGN-001", verdict="Good", findings=[finding]), DONE)
    response = await run(library, review, "ddr_review", "Review AGN-001.")
    assert "**Verdict:** Good" in (response.tool_calls[0].result_json or "")
    ranked = [{"id": "AGN-001", "reason": "It is about retries."}]
    search = ScriptedBackend(calls("ddr_search_result", query="retry", ranked=ranked), DONE)
    response = await run(library, search, "ddr_search", "What about retries?")
    assert json.loads(response.tool_calls[0].result_json or "")["results"][0]["title"] == "Retries"
    assert library.list() == [before]


async def test_a_rejected_document_is_reported_to_the_model(library: Library) -> None:
    wrong = calls("ddr_document", title="Retries", status="Accepted", markdownBody=BODY)
    right = calls("ddr_document", title="Retries", status="Proposed", markdownBody=BODY)
    backend = ScriptedBackend(wrong, right, DONE)
    response = await run(library, backend, "ddr_creation", "Write it down.")
    assert response.kind == "ok"
    assert "starts as Proposed" in str(backend.turns[1].items)
    assert [entry.id for entry in library.list()] == ["DDR-001"]
