"""The document tools, called as a model calls them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest, NotFound
from antiphon.orchestrator.documents.entry import Draft
from antiphon.orchestrator.documents.library import Library
from antiphon.orchestrator.documents.schemas import (
    DOCUMENT,
    READ,
    REVIEW,
    SEARCH,
    DocumentArguments,
    ReadArguments,
    ReviewArguments,
    SearchArguments,
)
from antiphon.orchestrator.documents.tools import current_ddr_block, ddr_tools
from antiphon.orchestrator.modes import BUILT_IN
from antiphon.orchestrator.tool import ToolResult
from antiphon.protocol.content import JsonObject
from antiphon.tools.invocation import ToolArgumentsInvalid, invoke
from antiphon.tools.registry import ToolRegistry


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.chdir(tmp_path)
    return Library(Path("docs/ddr"))


async def call(library: Library, name: str, **arguments: Any) -> ToolResult:
    tool = ToolRegistry(ddr_tools(library)).get(name)
    assert tool is not None
    result = await invoke(tool, msgspec.json.encode(arguments).decode())
    return result if isinstance(result, ToolResult) else ToolResult(output=result.output)


async def answer(library: Library, name: str, **arguments: Any) -> JsonObject:
    return msgspec.json.decode((await call(library, name, **arguments)).output)


WRITTEN = {"title": "Retries", "status": "Proposed", "markdownBody": "## Objective\n\nRetry."}


async def test_a_call_without_an_id_creates_the_document(library: Library) -> None:
    result_json = await answer(
        library, "ddr_document", **WRITTEN, domain="HTTP", tags=["a", "b"], owner="Ada", notes="Short."
    )
    assert result_json == {
        "id": "DDR-001",
        "path": "docs/ddr/DDR-001 - Retries.md",
        "created": True,
        "notes": "Short.",
    }
    document = library.find("DDR-1").parsed()
    assert (document.title, document.domain, document.tags, document.owner) == (
        *("Retries", "HTTP", ("a", "b"), "Ada"),
    )
    assert document.body == WRITTEN["markdownBody"]
    assert "Short." not in library.find("DDR-1").text


async def test_a_new_document_joins_the_named_or_the_default_series(library: Library) -> None:
    library.create("AGN", Draft(title="First"))
    assert (await answer(library, "ddr_document", **WRITTEN))["id"] == "AGN-002"
    assert (await answer(library, "ddr_document", **WRITTEN, id="tul"))["id"] == "TUL-001"


async def test_a_call_with_an_id_proposes_a_change_and_writes_nothing(library: Library) -> None:
    before = library.create("AGN", Draft(title="Old", owner="Ada", body="Before."))
    result = await call(library, "ddr_document", **WRITTEN, id="agn-1")
    result_json = msgspec.json.decode(result.output)
    assert (result_json["id"], result_json["created"], result_json["path"]) == ("AGN-001", False, before.path)
    assert "-Before.\n" in result_json["diff"]
    assert "+**Title:** Retries  \n" in result_json["diff"]
    (item,) = result.files
    assert (item.action, item.path) == ("replace", "docs/ddr/AGN-001 - Old.md")
    assert "**Owner:** Ada" in (item.contents or "")
    assert library.find("AGN-1") == before
    assert len(library.list()) == 1


async def test_a_call_that_changes_nothing_proposes_nothing(library: Library) -> None:
    library.create("AGN", Draft(title="Retries", body=WRITTEN["markdownBody"]))
    result = await call(library, "ddr_document", **WRITTEN, id="AGN-001")
    assert result.files == ()
    assert msgspec.json.decode(result.output)["diff"] == ""


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"id": "AGN-002"}, "no document AGN-002"),
        ({"id": "AGN-1", "status": "Superseded"}, "can become Accepted or Rejected"),
        ({"id": "AGN-x"}, "not the id of a document"),
        ({"id": "four"}, "three capital letters"),
        ({"status": "Accepted"}, "starts as Proposed"),
        ({"status": "Maybe"}, "Proposed, Accepted, Rejected, Superseded"),
        ({"title": " "}, "needs a title"),
        ({"markdownBody": " \n"}, "markdownBody is empty"),
    ],
)
async def test_invalid_arguments_are_rejected_with_a_message_for_the_model(
    library: Library, more: JsonObject, complaint: str
) -> None:
    library.create("AGN", Draft(title="Old"))
    with pytest.raises((InvalidRequest, NotFound), match=complaint):
        await call(library, "ddr_document", **{**WRITTEN, **more})
    assert len(library.list()) == 1


@pytest.mark.parametrize("missing", ["title", "status", "markdownBody"])
async def test_title_status_and_body_are_required(library: Library, missing: str) -> None:
    with pytest.raises(ToolArgumentsInvalid, match=missing):
        await call(library, "ddr_document", **{key: WRITTEN[key] for key in WRITTEN if key != missing})


async def test_a_review_is_rendered_and_recorded_nowhere(library: Library) -> None:
    before = library.create("AGN", Draft(title="Retries"))
    review = await call(
        library,
        "ddr_review",
        id="agn-1",
        verdict="Not yet",
        findings=[
            {"requirement": "Retries twice", "state": "Satisfied"},
            {"requirement": "a | b", "state": "NotSatisfied", "note": "no\njitter"},
        ],
    )
    assert review.output == (
        "## Review of AGN-001: Retries\n\n**Verdict:** Not yet\n\n1 of 2 requirements are satisfied.\n\n"
        "| Requirement | State | Note |\n|---|---|---|\n"
        "| Retries twice | Satisfied |  |\n| a \\| b | NotSatisfied | no jitter |"
    )
    assert review.files == ()
    assert library.list() == [before]


async def test_an_empty_review_or_one_with_another_state_is_rejected(library: Library) -> None:
    with pytest.raises(NotFound, match="AGN-001"):
        await call(library, "ddr_review", id="AGN-001", verdict="Good", findings=[])
    with pytest.raises(ToolArgumentsInvalid, match="Perhaps"):
        await call(
            library,
            "ddr_review",
            id="AGN-001",
            verdict="Good",
            findings=[{"requirement": "x", "state": "Perhaps"}],
        )


async def test_a_search_result_names_documents_that_exist(library: Library) -> None:
    for title in ("One", "Two"):
        library.create("AGN", Draft(title=title))
    ranked = [{"id": "agn-2", "reason": "fits"}, {"id": "AGN-001", "reason": "somewhat"}]
    result_json = await answer(library, "ddr_search_result", query="q", ranked=ranked)
    assert result_json["query"] == "q"
    assert [(row["id"], row["title"], row["reason"]) for row in result_json["results"]] == [
        ("AGN-002", "Two", "fits"),
        ("AGN-001", "One", "somewhat"),
    ]
    with pytest.raises(NotFound, match="AGN-009"):
        await call(library, "ddr_search_result", query="q", ranked=[{"id": "AGN-9", "reason": "made up"}])
    with pytest.raises(InvalidRequest, match="twice"):
        await call(library, "ddr_search_result", query="q", ranked=[*ranked, ranked[0]])


async def test_documents_are_listed_and_read(library: Library) -> None:
    entry = library.create("AGN", Draft(title="One", tags=("a",)))
    (library.folder / "AGN-002 - Bad.md").write_text("?")
    one, bad = (await answer(library, "ddr_list"))["documents"]
    assert one == {
        "id": "AGN-001",
        "path": entry.path,
        "title": "One",
        "status": "Proposed",
        "domain": "",
        "owner": "",
        "tags": ["a"],
    }
    assert "damaged" in bad["note"]
    assert (await call(library, "ddr_read", id="agn-1")).output == entry.text
    with pytest.raises(NotFound):
        await call(library, "ddr_read", id="AGN-3")


def test_every_tool_has_guidance_and_only_the_writer_has_side_effects(library: Library) -> None:
    tools = ddr_tools(library)
    assert all(tool.usage.strip() for tool in tools)
    assert {tool.name for tool in tools if tool.side_effects} == {"ddr_document"}
    assert {tool.name: tool.modes for tool in tools}["ddr_document"] == {"ddr_creation", "ddr_review"}


def test_writing_is_forced_and_the_other_modes_read_first(library: Library) -> None:
    registry = ToolRegistry(ddr_tools(library))
    forced = {mode.key: mode.tool_choice for mode in BUILT_IN if mode.tool_choice}
    assert forced == {"ddr_creation": "ddr_document"}
    for mode in BUILT_IN:
        names = [tool.name for tool in registry.for_mode(mode)]
        assert bool({"ddr_list", "ddr_read"} & set(names)) == mode.key.startswith("ddr_")
        assert not registry.missing(mode)
        bound = [tool for tool in ddr_tools(library) if tool.modes and mode.key in tool.modes]
        assert sorted(names) == sorted(tool.name for tool in bound)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (DOCUMENT, DocumentArguments),
        (REVIEW, ReviewArguments),
        (SEARCH, SearchArguments),
        (READ, ReadArguments),
    ],
)
def test_the_schemas_describe_the_arguments(schema: JsonObject, kind: type[msgspec.Struct]) -> None:
    fields = {field.encode_name: field.required for field in msgspec.structs.fields(kind)}
    assert set(schema["properties"]) == set(fields)
    assert {name for name, required in fields.items() if required} <= set(schema["required"])


def test_the_parameters_of_ddr_document_match_agn_001() -> None:
    assert list(DOCUMENT["properties"]) == [
        *("id", "title", "status", "domain", "tags", "owner", "markdownBody", "notes"),
    ]
    assert DOCUMENT["required"] == ["title", "status", "markdownBody"]
    assert DOCUMENT["properties"]["status"]["enum"] == ["Proposed", "Accepted", "Rejected", "Superseded"]


def test_the_document_to_refine_follows_its_marker() -> None:
    assert current_ddr_block("### AGN-001\n") == "[CURRENT_DDR]\n### AGN-001\n"
