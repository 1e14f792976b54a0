"""Which files of a folder are added."""

from pathlib import Path

import pytest

from antiphon.cli.vector_stores.found_files import find_files


def found(folder: Path, *names: str) -> list[str]:
    return [file.path for file in find_files([folder / name for name in names], folder).files]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")


def test_hidden_files_and_packages_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".env", ".git/config", "node_modules/x.js", "b/c.md", "b/__pycache__/x.py")
    assert found(tmp_path, ".") == ["a.md", "b/c.md"]


def test_files_that_are_named_are_taken_once(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".env")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert found(tmp_path, "photo.png", ".env", "a.md", ".") == ["photo.png", ".env", "a.md"]


def test_types_that_are_not_read_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "program").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "archive.zip").write_bytes(b"PK\x03\x04rest")
    (tmp_path / "letter.docx").write_bytes(b"PK\x03\x04rest")
    result = find_files([tmp_path], tmp_path)
    assert [file.path for file in result.files] == ["a.md", "letter.docx"]
    assert result.skipped == 3


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ("*.log\n", ["a.md", "build/x.md", "deep/build/y.md", "keep.md"]),
        ("# nothing\n\nbuild/\n", ["a.log", "a.md", "keep.md"]),
        ("/build\n", ["a.log", "a.md", "deep/build/y.md", "keep.md"]),
        ("**/build/*.md\n", ["a.log", "a.md", "keep.md"]),
        ("*.md\n!keep.md\n", ["a.log", "keep.md"]),
    ],
)
def test_gitignore_is_followed(tmp_path: Path, rules: str, left: list[str]) -> None:
    write(tmp_path, "a.md", "a.log", "keep.md", "build/x.md", "deep/build/y.md")
    (tmp_path / ".gitignore").write_text(rules)
    assert found(tmp_path, ".") == left


def test_rules_of_the_repository_apply_to_its_folders(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "docs/draft.md")
    (tmp_path / ".gitignore").write_text("draft.*\n")
    assert found(tmp_path, "docs") == ["docs/a.md", "docs/draft.md"]
    (tmp_path / ".git").mkdir()
    assert found(tmp_path, "docs") == ["docs/a.md"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md")
    (tmp_path / "docs" / "loop").symlink_to(tmp_path / "docs")
    assert found(tmp_path, "docs") == ["docs/a.md"]
