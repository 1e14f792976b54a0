"""The shape of the code base: rules that ruff does not check."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_LINES = 500
BANNED_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py"}
FILES = [
    path for folder in ("src", "tests", "bench", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
]


def test_no_file_is_too_long_or_a_catch_all() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES
    }
    assert lengths
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}
    assert [str(path.relative_to(ROOT)) for path in FILES if path.name in BANNED_NAMES] == []
