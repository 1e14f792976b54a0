"""The compatibility page matches the manifests and the tests."""

from antiphon.conformance.checks import CHECKS
from tests.docs.compatibility import PAGE, render
from tests.docs.markers import ROOT
from tests.docs.test_requirements import divergences, rules


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make docs`"


def test_every_rule_and_every_divergence_is_on_the_page() -> None:
    page = render()
    for rule in rules():
        assert not rule["id"].startswith("PROTOCOL/") or rule["says"].replace("|", "\\|") in page
    assert all(entry["antiphon"] in page for entry in divergences())


def test_every_check_shows_a_rule_of_the_manifest() -> None:
    known = {rule["id"] for rule in rules()}
    assert [check.id for check in CHECKS if check.rule not in known] == []


def test_every_check_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "conformance.md").read_text(encoding="utf-8")
    assert [check.id for check in CHECKS if f"`{check.id}`" not in page] == []
