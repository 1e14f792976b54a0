"""The page about reliability: 34 rules, each with a state, and every test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "reliability.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (R\d+) \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)


def test_every_rule_has_a_row_with_a_state() -> None:
    rows = ROW.findall(PAGE)
    assert [number for number, *_ in rows] == [f"R{number}" for number in range(1, 35)]
    assert {state for _, _, state, _ in rows} <= {"held", "in part", "not applicable"}


def test_a_rule_names_its_tests_or_what_is_missing() -> None:
    for number, _, state, shown in ROW.findall(PAGE):
        if state == "held":
            assert ".py`" in shown, number
        assert ("Missing:" in shown) == (state == "in part"), number


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:tests/)?[\w/]+/test_\w+\.py)`", PAGE))
    assert len(named) > 30
    assert [path for path in named if not (ROOT / "tests" / path.removeprefix("tests/")).is_file()] == []
