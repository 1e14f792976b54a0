"""File bundles below a folder: rejected bundles, the diff, and the written files."""

import os
from pathlib import Path

import pytest

from antiphon.cli.agent.bundle import FileChange, changes_of, print_diff, write_changes
from antiphon.cli.failure import Failure
from antiphon.orchestrator.models import FileBundle, FileBundleItem


def written(path: str, contents: str = "new\n") -> FileBundleItem:
    return FileBundleItem(action="create", path=path, contents=contents)


def deleted(path: str) -> FileBundleItem:
    return FileBundleItem(action="delete", path=path)


def planned(*items: FileBundleItem, **shown: str) -> list[FileChange]:
    return changes_of(FileBundle(files=items), Path.cwd(), shown)


def files_below(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_changes_are_written() -> None:
    Path("old").write_text("old\n")
    Path("gone").write_text("gone\n")
    write_changes(planned(written("a/b/c"), written("old"), deleted("gone"), deleted("never")))
    assert files_below(Path.cwd()) == {"a/b/c": "new\n", "old": "new\n"}


def test_an_unchanged_file_is_no_change() -> None:
    Path("same").write_text("new\n")
    assert planned(written("same"), deleted("never")) == []


def test_a_link_is_deleted_and_not_its_target() -> None:
    Path("real").write_text("precious\n")
    Path("link").symlink_to("real")
    Path("nowhere").symlink_to("missing")
    changes = planned(deleted("link"), deleted("nowhere"))
    assert changes[0].title() == "delete link -> real (only the link)"
    write_changes(changes)
    assert files_below(Path.cwd()) == {"real": "precious\n"}
    assert not Path("link").is_symlink()
    assert not Path("nowhere").is_symlink()


def test_a_link_out_of_the_folder_is_deleted_but_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious\n")
    Path("link").symlink_to(outside)
    with pytest.raises(Failure, match="outside this folder"):
        planned(written("link"))
    write_changes(planned(deleted("link")))
    assert outside.read_text() == "precious\n"
    assert not Path("link").is_symlink()


def test_the_target_of_a_link_is_written_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    Path("real").write_text("old\n")
    Path("link").symlink_to("real")
    changes = planned(written("link"), link="old\n")
    print_diff(changes)
    assert "change link -> real (the target of the link)" in capsys.readouterr().err
    write_changes(changes)
    assert Path("real").read_text() == "new\n"
    assert Path("link").is_symlink()


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (written("folder"), "'folder' is a folder"),
        (deleted("folder"), "'folder' is a folder"),
        (written("file/below"), "not a folder"),
        (written("file/far/below"), "not a folder"),
        (written("x" * 256), "too long"),
        (written("ä" * 128), "too long"),
        (written("/".join(["x" * 200] * 21)), "too long"),
        (written("pipe"), "not a regular file"),
        (deleted("pipe"), "not a regular file"),
        (written("circle"), "circle"),
        (written("circle/x"), "circle"),
        (written("../x"), "outside"),
        (written("folder/.."), "outside"),
        (written("/etc/x"), "outside"),
        (written("."), "outside"),
        (written("other/../first"), "outside"),
        (written("first"), "'first' and 'first' are the same file"),
        (written("link"), "'first' and 'link' are the same file"),
        (written("first/below"), "below the file 'first'"),
    ],
)
def test_invalid_changes_are_rejected_before_anything_is_written(
    item: FileBundleItem, reason: str, tmp_path: Path
) -> None:
    Path("folder").mkdir()
    Path("file").write_text("")
    Path("link").symlink_to("first")
    Path("circle").symlink_to("circle")
    os.mkfifo("pipe")
    with pytest.raises(Failure, match="Nothing was written") as refused:
        planned(written("first"), item)
    assert reason in refused.value.message
    assert files_below(tmp_path) == {"here/file": ""}


def test_a_name_may_be_as_long_as_the_file_system_takes() -> None:
    write_changes(planned(written("x" * 255)))
    assert list(files_below(Path.cwd())) == ["x" * 255]


def test_if_the_last_file_cannot_be_written_no_file_is() -> None:
    changes = planned(written("a/b/first"), written("sub/second"))
    Path("sub").write_text("in the way\n")
    with pytest.raises(
        Failure, match=r"'sub/second' cannot be written: Not a directory\. Nothing was written"
    ):
        write_changes(changes)
    assert [path.name for path in Path.cwd().iterdir()] == ["sub"]


def test_a_failure_in_the_middle_lists_the_changed_files() -> None:
    Path("gone").write_text("gone\n")
    changes = planned(written("first"), deleted("gone"), written("last"))
    Path("gone").unlink()
    with pytest.raises(Failure) as failed:
        write_changes(changes)
    assert failed.value.message == (
        "'gone' cannot be deleted: No such file or directory. Changed: first. Not changed: gone, last."
    )
    assert files_below(Path.cwd()) == {"first": "new\n"}


@pytest.mark.parametrize(
    ("shown", "title"),
    [
        ({}, "overwrite file (the agent has not seen the current contents)"),
        ({"file": "older\n"}, "overwrite file (the agent has not seen the current contents)"),
        ({"file": "old\n"}, "change file"),
    ],
)
def test_a_file_that_the_agent_did_not_see_is_reported_as_overwritten(
    shown: dict[str, str], title: str
) -> None:
    Path("file").write_text("old\n")
    [change] = planned(written("file"), **shown)
    assert (change.title(), change.unseen) == (title, title.startswith("overwrite"))


def test_an_empty_file_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    print_diff(planned(written("empty", "")))
    assert capsys.readouterr().err == "create empty\n"


def test_control_characters_are_removed_from_a_diff(capsys: pytest.CaptureFixture[str]) -> None:
    print_diff(planned(written("file", "safe\u202e\x1b[2J\n")))
    assert "+safe[2J\n" in capsys.readouterr().err
