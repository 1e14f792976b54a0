"""Every rule of the documents has a test, and every rule that a test names exists."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANIFESTS = sorted((ROOT / "docs" / "requirements").glob("*.toml"))


def rules() -> list[dict[str, str]]:
    return [rule for path in MANIFESTS for rule in tomllib.loads(path.read_text(encoding="utf-8"))["rule"]]


def marked_ids(source: str) -> Iterator[str]:
    """The arguments of every `pytest.mark.requirement(…)`, wherever it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement":
            for argument in node.args:
                yield str(ast.literal_eval(argument))


def shown() -> dict[str, str]:
    """The rules that tests show, each with a file that does."""
    return {
        rule: str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for rule in marked_ids(path.read_text(encoding="utf-8"))
    }


def test_markers_are_found_on_functions_in_parameters_and_for_whole_files() -> None:
    source = """
pytestmark = [pytest.mark.slow, pytest.mark.requirement("D/1")]

@pytest.mark.requirement("D/2", "D/3")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("D/4"))])
async def test_something(x): ...

class TestMore:
    @pytest.mark.requirement("D/5")
    def test_more(self): ...
"""
    assert sorted(marked_ids(source)) == ["D/1", "D/2", "D/3", "D/4", "D/5"]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_well_formed(path: Path) -> None:
    for rule in tomllib.loads(path.read_text(encoding="utf-8"))["rule"]:
        assert set(rule) == {"id", "section", "says"}, rule
        document, _, name = rule["id"].partition("/")
        assert document
        assert name.startswith(f"{rule['section']}-"), rule
        assert rule["says"].endswith(".")


def test_a_rule_is_listed_once() -> None:
    counts = Counter(rule["id"] for rule in rules())
    assert [rule for rule, count in counts.items() if count > 1] == []


def test_every_rule_has_a_test() -> None:
    tested = shown()
    assert [rule["id"] for rule in rules() if rule["id"] not in tested] == []


def test_every_rule_that_a_test_names_exists() -> None:
    known = {rule["id"] for rule in rules()}
    assert {rule: path for rule, path in shown().items() if rule not in known} == {}
