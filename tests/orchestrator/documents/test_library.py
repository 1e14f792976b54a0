"""The folder of the documents: numbers, notes, changes, search."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import InvalidRequest, NotFound
from antiphon.orchestrator.documents import files
from antiphon.orchestrator.documents.document import SECTIONS
from antiphon.orchestrator.documents.entry import Draft
from antiphon.orchestrator.documents.library import Library
from antiphon.orchestrator.documents.status import Status


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "docs" / "ddr"


@pytest.fixture
def library(folder: Path) -> Library:
    return Library(folder)


def put(folder: Path, name: str, text: str = "**Status:** Proposed\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_a_missing_folder_is_empty(library: Library) -> None:
    assert library.list() == []
    assert library.search("anything") == []
    assert library.next_number("AGN") == 1
    with pytest.raises(NotFound, match="AGN-004"):
        library.find("AGN-4")


def test_a_new_document_is_proposed_and_has_all_sections(library: Library, folder: Path) -> None:
    entry = library.create("AGN", Draft(title="Retries", owner="Ada", tags=("http",)))
    assert (entry.id, entry.name) == ("AGN-001", "AGN-001 - Retries.md")
    assert entry.text == (folder / entry.name).read_text()
    document = entry.parsed()
    assert (document.title, document.status, document.owner) == ("Retries", Status.PROPOSED, "Ada")
    assert [line[3:] for line in document.body.splitlines() if line] == list(SECTIONS)
    assert os.listdir(folder) == [entry.name]


def test_numbers_go_on_after_the_highest_and_gaps_are_not_used(library: Library, folder: Path) -> None:
    put(folder, "AGN-002 - Two.md")
    put(folder, "AGN-007.md")
    put(folder, "TUL-020 - Other.md")
    assert library.create("AGN", Draft(title="Next")).id == "AGN-008"
    (folder / "AGN-002 - Two.md").unlink()
    assert library.create("AGN", Draft(title="Next")).id == "AGN-009"
    assert library.next_number("TUL") == 21


def test_a_title_cannot_escape_the_folder(library: Library, folder: Path, tmp_path: Path) -> None:
    entry = library.create("AGN", Draft(title="../../../escape/../x"))
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.md")] == [Path("docs/ddr", entry.name)]
    assert entry.parsed().title == "../../../escape/../x"


@pytest.mark.parametrize(
    ("tla", "draft", "param"),
    [
        ("agn", Draft(title="X"), "id"),
        ("../", Draft(title="X"), "id"),
        ("AGN", Draft(title=" "), "title"),
        ("AGN", Draft(), "title"),
        ("AGN", Draft(title="X", status=Status.ACCEPTED), "status"),
        ("AGN", Draft(title="X", body="x" * files.MAX_DOCUMENT_BYTES), "markdownBody"),
    ],
)
def test_a_rejected_document_leaves_no_files(
    library: Library, folder: Path, tla: str, draft: Draft, param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        library.create(tla, draft)
    assert caught.value.param == param
    assert not folder.exists() or os.listdir(folder) == []


def test_a_concurrent_writer_gets_the_number(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process creates the same number between the listing of the folder and the claim."""
    number = library.next_number

    def slow(tla: str) -> int:
        found = number(tla)
        put(folder, "AGN-001 - Faster.md", "theirs")
        return found

    monkeypatch.setattr(library, "next_number", slow)
    assert library.create("AGN", Draft(title="Slower")).id == "AGN-002"
    assert (folder / "AGN-001 - Faster.md").read_text() == "theirs"
    assert sorted(os.listdir(folder)) == ["AGN-001 - Faster.md", "AGN-002 - Slower.md"]


def test_a_claim_left_by_a_crash_only_skips_a_number(library: Library, folder: Path) -> None:
    put(folder, ".AGN-001.new")
    assert library.create("AGN", Draft(title="Next")).id == "AGN-002"
    assert (folder / ".AGN-001.new").exists()


def test_a_full_disk_leaves_no_files(library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            library.create("AGN", Draft(title="Next"))
    assert os.listdir(folder) == []
    assert library.create("AGN", Draft(title="Next")).id == "AGN-001"


CREATE = """
import sys
from pathlib import Path
from antiphon.orchestrator.documents import Draft, Library
library = Library(Path(sys.argv[1]))
sys.stdin.readline()
print(*(library.create("AGN", Draft(title=f"{sys.argv[2]} {turn}")).id for turn in range(20)))
"""


@pytest.mark.slow
def test_processes_that_create_at_once_get_different_numbers(folder: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CREATE, str(folder), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b", "c")
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ids = [name for process in processes for name in process.communicate(timeout=120)[0].split()]
    assert all(process.returncode == 0 for process in processes)
    assert len(ids) == len(set(ids)) == 60
    entries = Library(folder).list()
    assert sorted(ids) == [entry.id for entry in entries]
    assert not any(entry.note for entry in entries)
    assert len(os.listdir(folder)) == 60


def test_the_list_is_sorted_by_id_and_reports_damaged_documents(library: Library, folder: Path) -> None:
    put(folder, "TUL-001 - Last.md")
    put(folder, "AGN-010 - Ten.md")
    put(folder, "AGN-1000 - Thousand.md")
    put(folder, "AGN-003 - Damaged.md", "nothing here")
    put(folder, "README.md")
    (folder / "AGN-004 - Bytes.md").write_bytes(b"\xff\xfe")
    (folder / "AGN-005 - Folder.md").mkdir()
    entries = library.list()
    assert [entry.id for entry in entries] == [
        *("AGN-003", "AGN-004", "AGN-005", "AGN-010", "AGN-1000", "TUL-001"),
    ]
    notes = {entry.id: entry.note for entry in entries if entry.note}
    assert list(notes) == ["AGN-003", "AGN-004", "AGN-005"]
    assert "no line '**Status:** …'" in notes["AGN-003"]
    assert "not UTF-8" in notes["AGN-004"]
    assert "not a file" in notes["AGN-005"]
    with pytest.raises(InvalidRequest, match="Repair the file"):
        library.find("AGN-3").parsed()
    assert library.find("AGN-3").text == "nothing here"


def test_an_unreadable_file_does_not_hide_the_others(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "AGN-001 - Secret.md")
    put(folder, "AGN-002 - Open.md")
    opens: Callable[..., Any] = Path.open

    def guarded(path: Path, *arguments: Any) -> Any:
        if "Secret" in path.name:
            raise PermissionError(13, "Permission denied")
        return opens(path, *arguments)

    monkeypatch.setattr(Path, "open", guarded)
    assert [entry.note for entry in library.list()] == [
        "'AGN-001 - Secret.md' cannot be read: Permission denied.",
        "",
    ]


def test_a_number_that_two_files_have_is_noted_and_not_guessed(library: Library, folder: Path) -> None:
    put(folder, "AGN-004 - One.md")
    put(folder, "AGN-0004 - Two.md")
    assert [entry.note for entry in library.list()] == ["Another file has the id AGN-004 too."] * 2
    with pytest.raises(InvalidRequest, match=r"AGN-0004 - Two\.md, AGN-004 - One\.md") as caught:
        library.find("AGN-4")
    assert caught.value.code == "ambiguous_id"


def test_a_link_out_of_the_folder_is_not_followed(library: Library, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret.md"
    outside.write_text("**Status:** Proposed\nsecret")
    target = put(folder, "AGN-001 - TenantService.md")
    (folder / "AGN-002 - Out.md").symlink_to(outside)
    (folder / "AGN-003 - In.md").symlink_to(target)
    (folder / "AGN-004 - Loop.md").symlink_to("AGN-004 - Loop.md")
    (folder / "AGN-005 - Nowhere.md").symlink_to("nothing.md")
    entries = {entry.id: entry for entry in library.list()}
    assert "leaves the folder" in entries["AGN-002"].note
    assert entries["AGN-002"].text == ""
    assert entries["AGN-003"].text == target.read_text()
    assert entries["AGN-004"].note
    assert entries["AGN-005"].note
    with pytest.raises(InvalidRequest, match="leaves the folder"):
        library.refine("AGN-2", Draft(title="Mine"))


def test_the_folder_itself_may_be_a_link(tmp_path: Path, folder: Path) -> None:
    put(folder, "AGN-001 - One.md")
    (tmp_path / "linked").symlink_to(folder)
    library = Library(tmp_path / "linked")
    assert library.find("AGN-1").note == ""
    assert library.create("AGN", Draft(title="Two")).id == "AGN-002"


def test_a_change_is_a_diff_first(library: Library, folder: Path) -> None:
    library.create("AGN", Draft(title="Retries", owner="Ada", body="One.\n\nTwo."))
    before = (folder / "AGN-001 - Retries.md").read_text()
    change = library.refine("agn-1", Draft(status=Status.ACCEPTED, body="One.\n\nThree."))
    assert (folder / "AGN-001 - Retries.md").read_text() == before
    marked = [line for line in change.diff.splitlines() if line[0] in "+-"]
    assert marked == [
        *("--- a/AGN-001 - Retries.md", "+++ b/AGN-001 - Retries.md"),
        *("-**Status:** Proposed  ", "+**Status:** Accepted  ", "-Two.", "+Three."),
    ]
    entry = library.apply(change)
    assert entry.text == change.text == (folder / entry.name).read_text()
    assert (entry.parsed().status, entry.parsed().owner) == (Status.ACCEPTED, "Ada")
    assert os.listdir(folder) == [entry.name]


def test_a_new_title_does_not_rename_the_file(library: Library) -> None:
    library.create("AGN", Draft(title="Retries"))
    entry = library.apply(library.refine("AGN-1", Draft(title="Never retry")))
    assert (entry.name, entry.parsed().title) == ("AGN-001 - Retries.md", "Never retry")


def test_an_invalid_status_transition_is_rejected(library: Library) -> None:
    library.create("AGN", Draft(title="Retries"))
    with pytest.raises(InvalidRequest, match="can become Accepted or Rejected"):
        library.refine("AGN-1", Draft(status=Status.SUPERSEDED))


def test_an_empty_change_writes_nothing(library: Library, folder: Path) -> None:
    entry = library.create("AGN", Draft(title="Retries"))
    stamp = (folder / entry.name).stat()
    change = library.refine("AGN-1", Draft(title="Retries"))
    assert change.diff == ""
    library.apply(change)
    assert (folder / entry.name).stat().st_ino == stamp.st_ino


def test_a_concurrently_changed_file_is_not_overwritten(library: Library, folder: Path) -> None:
    entry = library.create("AGN", Draft(title="Retries"))
    change = library.refine("AGN-1", Draft(title="Mine"))
    (folder / entry.name).write_text("theirs")
    with pytest.raises(InvalidRequest, match="changed by another process") as caught:
        library.apply(change)
    assert caught.value.code == "document_changed"
    assert (folder / entry.name).read_text() == "theirs"
    assert os.listdir(folder) == [entry.name]


def test_a_concurrently_deleted_file_is_not_recreated(library: Library, folder: Path) -> None:
    entry = library.create("AGN", Draft(title="Retries"))
    change = library.refine("AGN-1", Draft(title="Mine"))
    (folder / entry.name).unlink()
    with pytest.raises(NotFound):
        library.apply(change)
    assert os.listdir(folder) == []


def test_two_changes_at_once_do_not_lose_one(library: Library, folder: Path) -> None:
    entry = library.create("AGN", Draft(title="Retries"))
    change = library.refine("AGN-1", Draft(title="Mine"))
    put(folder, ".AGN-001.new", "somebody is at work")
    with pytest.raises(InvalidRequest, match=r"delete it") as caught:
        library.apply(change)
    assert caught.value.code == "document_busy"
    assert (folder / entry.name).read_text() == entry.text
    assert (folder / ".AGN-001.new").read_text() == "somebody is at work"


def test_a_change_preserves_mode_line_endings_and_unknown_lines(library: Library, folder: Path) -> None:
    path = put(folder, "AGN-001 - Old.md")
    path.write_bytes(b"# **AGN-001**\r\n**Status:** Proposed\r\n**Version:** 1.2\r\n\r\n---\r\n\r\nText.\r\n")
    path.chmod(0o640)
    library.apply(library.refine("AGN-1", Draft(owner="Ada")))
    text = path.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n")
    assert b"**Version:** 1.2" in text
    assert b"**Owner:** Ada" in text
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_damaged_document_is_not_changed(library: Library, folder: Path) -> None:
    put(folder, "AGN-001 - Old.md", "notes")
    with pytest.raises(InvalidRequest, match="Repair the file") as caught:
        library.refine("AGN-1", Draft(title="New"))
    assert caught.value.code == "damaged_document"


@pytest.mark.parametrize(
    ("folder_name", "path"),
    [
        ("docs/ddr", "docs/ddr/AGN-001 - X.md"),
        ("{here}/docs/ddr", "docs/ddr/AGN-001 - X.md"),
        ("{here}-other", "{here}-other/AGN-001 - X.md"),
    ],
)
def test_a_path_is_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_name: str, path: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    entry = Library(Path(folder_name.format(here=here))).create("AGN", Draft(title="X"))
    assert entry.path == path.format(here=here)
    assert Path(entry.path).is_file()


def test_the_usual_series_is_that_of_most_documents(library: Library, folder: Path) -> None:
    assert library.usual_series() == "DDR"
    for name in ("TUL-001 - A.md", "AGN-001 - A.md", "AGN-002 - B.md"):
        put(folder, name)
    assert library.usual_series() == "AGN"


def test_a_search_finds_each_document_once_best_first(library: Library) -> None:
    library.create(
        "AGN", Draft(title="Retries", body="## Objective\n\nWait with jitter.\n\n## Context\n\nA timeout.")
    )
    library.create("AGN", Draft(title="Storage", body="## Objective\n\nKeep rows. No jitter."))
    library.create("AGN", Draft(title="Unrelated", body="## Objective\n\nColours of the terminal."))
    hits = library.search("retries with jitter after a timeout")
    assert [hit.entry.id for hit in hits] == ["AGN-001", "AGN-002"]
    assert [hit.entry.id for hit in library.search("jitter", limit=1)] in (["AGN-001"], ["AGN-002"])
    assert library.search("zebra") == []
    assert library.search('" OR * NEAR(') == []
    (hit,) = library.search("colours")
    assert (hit.section, hit.entry.id) == ("Objective", "AGN-003")
    assert "Colours of the terminal." in hit.excerpt


def test_a_hit_names_the_section_that_fits_best(library: Library) -> None:
    text = "The zebra, and a lot about other things that nobody has asked about here, again and again."
    library.create(
        "AGN", Draft(title="A", body=f"## Far\n\n{text}\n\n## Near\n\nA zebra crossing.\n\n## Off\n\n{text}")
    )
    (hit,) = library.search("zebra crossing")
    assert hit.section == "Near"


def test_a_section_excludes_the_documents_heading(library: Library, folder: Path) -> None:
    put(folder, "AGN-001 - A.md", "# **AGN-001**\n**Status:** Proposed\n\n---\n\n## **Risks**\n\nA zebra.\n")
    (hit,) = library.search("zebra")
    assert hit.section == "Risks"
