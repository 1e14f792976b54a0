"""Every rule of the documents has a test, and every rule that a test names exists."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.markers import all_marks, marks_in

ROOT = Path(__file__).parents[2]
TABLE_OF_CLIENTS = ROOT / "docs" / "requirements" / "clients.toml"  # no rules; see test_clients.py
MANIFESTS = sorted(set((ROOT / "docs" / "requirements").glob("*.toml")) - {TABLE_OF_CLIENTS})


def rules() -> list[dict[str, str]]:
    return [rule for path in MANIFESTS for rule in tomllib.loads(path.read_text(encoding="utf-8"))["rule"]]


def divergences() -> list[dict[str, str]]:
    return [
        entry
        for path in MANIFESTS
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("divergence", [])
    ]


def shown() -> dict[str, str]:
    """The rules that tests show, each with a test file."""
    return {mark.rule: mark.path for mark in all_marks()}


def test_markers_are_found_on_functions_in_parameters_and_for_complete_files() -> None:
    source = """
pytestmark = [pytest.mark.slow, pytest.mark.requirement("D/1")]

@pytest.mark.requirement("D/2", "D/3")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("D/4"))])
async def test_something(x): ...

class TestMore:
    @pytest.mark.requirement("D/5")
    def test_more(self): ...

CASES = [pytest.param("b", marks=pytest.mark.requirement("D/6"))]

@pytest.mark.parametrize("y", CASES)
def test_cases(y): ...
"""
    assert sorted((mark.rule, mark.test, mark.case) for mark in marks_in(source)) == [
        ("D/1", "", ""),
        ("D/2", "test_something", ""),
        ("D/3", "test_something", ""),
        ("D/4", "test_something", "1"),
        ("D/5", "test_more", ""),
        ("D/6", "test_cases", "b"),
    ]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_well_formed(path: Path) -> None:
    for rule in tomllib.loads(path.read_text(encoding="utf-8"))["rule"]:
        assert set(rule) - {"source"} == {"id", "section", "says"}, rule
        document, _, name = rule["id"].partition("/")
        assert document
        assert name.startswith(f"{rule['section']}-"), rule
        assert rule["says"].endswith(".")


def test_a_divergence_has_a_difference_and_a_reason() -> None:
    for entry in divergences():
        assert set(entry) == {"id", "protocol", "antiphon", "why", "page"}, entry
        assert all(entry[name].endswith(".") for name in ("protocol", "antiphon", "why")), entry
        assert (ROOT / "docs" / entry["page"]).exists(), entry


def test_a_rule_is_listed_once() -> None:
    counts = Counter(rule["id"] for rule in [*rules(), *divergences()])
    assert [rule for rule, count in counts.items() if count > 1] == []


def test_every_rule_has_a_test() -> None:
    tested = shown()
    assert [rule["id"] for rule in [*rules(), *divergences()] if rule["id"] not in tested] == []


def test_every_rule_that_a_test_names_exists() -> None:
    known = {rule["id"] for rule in [*rules(), *divergences()]}
    assert {rule: path for rule, path in shown().items() if rule not in known} == {}
