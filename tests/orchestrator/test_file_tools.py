"""File tools: they propose changes within the root and write nothing."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest, NotFound
from antiphon.orchestrator.file_tools import checked_path, file_tools
from antiphon.orchestrator.models import ActiveFile, AgentExecuteRequest, FileBundleItem
from antiphon.orchestrator.tool import ToolContext, ToolResult
from antiphon.tools.invocation import ToolArgumentsInvalid, invoke

TOOLS = {tool.name: tool for tool in file_tools()}
REQUEST = AgentExecuteRequest(
    active_files=(
        ActiveFile(relative_path="src\\main.py", contents="a = 1\na = 1\n"),
        ActiveFile(file_name="notes.md", contents="Notes."),
    )
)


async def call(name: str, *, files: dict[str, FileBundleItem] | None = None, **arguments: Any) -> ToolResult:
    context = ToolContext(REQUEST, files=files or {})
    result = await invoke(TOOLS[name], msgspec.json.encode(arguments).decode(), context=context)
    return result if isinstance(result, ToolResult) else ToolResult(output=result.output)


def test_file_tools_have_no_side_effects_and_describe_their_usage() -> None:
    assert set(TOOLS) == {"write_file", "edit_file", "delete_file", "read_active_file"}
    assert not any(tool.side_effects for tool in TOOLS.values())
    assert all(tool.usage and tool.description for tool in TOOLS.values())


async def test_a_file_that_is_not_open_is_created() -> None:
    result = await call("write_file", path="docs/new.md", contents="New.")
    assert result.files == (FileBundleItem(action="create", path="docs/new.md", contents="New."),)
    assert msgspec.json.decode(result.output) == {"path": "docs/new.md", "written": 4}


async def test_a_file_that_is_open_is_replaced() -> None:
    result = await call("write_file", path="src/main.py", contents="")
    assert result.files == (FileBundleItem(action="replace", path="src/main.py", contents=""),)


async def test_an_edit_changes_the_first_occurrence_or_all() -> None:
    once = await call("edit_file", path="src/main.py", find="a =", replace="b =")
    assert once.files[0].contents == "b = 1\na = 1\n"
    everywhere = await call("edit_file", path="src/main.py", find="a =", replace="b =", limit="all")
    assert everywhere.files[0].contents == "b = 1\nb = 1\n"
    assert msgspec.json.decode(everywhere.output)["replaced"] == 2


async def test_an_edit_applies_to_the_result_of_earlier_edits() -> None:
    before = {"src/main.py": FileBundleItem(action="replace", path="src/main.py", contents="c = 1\n")}
    result = await call("edit_file", files=before, path="src/main.py", find="c", replace="d")
    assert result.files[0].contents == "d = 1\n"


async def test_text_that_is_not_found_is_reported_and_changes_nothing() -> None:
    result = await call("edit_file", path="notes.md", find="nowhere", replace="x")
    assert result.files == ()
    assert msgspec.json.decode(result.output)["replaced"] == 0


async def test_an_edit_without_a_text_to_find_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="find"):
        await call("edit_file", path="notes.md", find="", replace="x")


async def test_an_edit_enforces_two_limits() -> None:
    with pytest.raises(ToolArgumentsInvalid, match="limit"):
        await call("edit_file", path="notes.md", find="N", replace="x", limit="twice")


@pytest.mark.parametrize("name", ["edit_file", "read_active_file"])
async def test_a_file_that_is_not_open_cannot_be_seen(name: str) -> None:
    more: dict[str, Any] = {"find": "a", "replace": "b"} if name == "edit_file" else {}
    with pytest.raises(NotFound, match=r"Open files: src/main\.py, notes\.md"):
        await call(name, path="secret.md", **more)


async def test_a_file_is_proposed_to_be_deleted() -> None:
    result = await call("delete_file", path="notes.md")
    assert result.files == (FileBundleItem(action="delete", path="notes.md"),)


async def test_reading_shows_the_file_with_its_changes() -> None:
    assert (await call("read_active_file", path="notes.md")).output == "Notes."
    changed = {"notes.md": FileBundleItem(action="replace", path="notes.md", contents="Changed.")}
    assert (await call("read_active_file", files=changed, path="notes.md")).output == "Changed."
    deleted = {"notes.md": FileBundleItem(action="delete", path="notes.md")}
    with pytest.raises(NotFound, match="deleted"):
        await call("read_active_file", files=deleted, path="notes.md")


OUTSIDE = ["/etc/passwd", "../a", "a/../../b", "a/..", ".. /a", "C:/a", "~/a"]
MALFORMED = ["", " ", "./a", "a//b", "a/", "a\\b", "a\0b", "a\nb", "x" * 2000]
DISGUISED = [
    "a\u202efdp.exe",
    "a\u200b.py",
    "a\u200d.py",
    "\u200cä",
    "ä\u200c",
    "a\u2028b",
    "a\x9b2J",
    "\ufeffa",
]


@pytest.mark.parametrize("path", [*OUTSIDE, *MALFORMED, *DISGUISED])
@pytest.mark.parametrize("name", ["write_file", "delete_file", "read_active_file"])
async def test_a_path_cannot_escape_the_root(name: str, path: str) -> None:
    more: dict[str, Any] = {"contents": "x"} if name == "write_file" else {}
    with pytest.raises(InvalidRequest) as refusal:
        await call(name, path=path, **more)
    assert refusal.value.param == "path"


@pytest.mark.parametrize("path", ["src/größe.py", "می\u200cخواهم.txt", "👩\u200d🚀.md"])
def test_a_path_may_be_in_any_script(path: str) -> None:
    assert checked_path(path) == path


@given(st.text())
def test_an_accepted_path_is_below_the_root(path: str) -> None:
    try:
        taken = checked_path(path)
    except InvalidRequest:
        return
    assert not taken.startswith("/")
    assert ".." not in taken.split("/")
    assert "\\" not in taken
