"""The shape of the code base: what ruff does not count."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMIT = 500
FILES = [
    path for folder in ("src", "tests", "bench", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LIMIT


def test_there_is_no_place_for_everything() -> None:
    banned = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert [path for path in FILES if path.name in banned] == []
