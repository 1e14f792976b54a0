"""Where every client is required, one that is not installed is a failure."""

import pytest

from tests.clients.conftest import required_report


def report(outcome: str) -> pytest.TestReport:
    why = ("test.py", 1, "Skipped: codex is not installed") if outcome == "skipped" else None
    return pytest.TestReport("test.py::test", ("test.py", 1, "test"), {}, outcome, why, "setup")  # pyright: ignore[reportArgumentType]


def test_a_test_that_was_skipped_has_failed() -> None:
    changed = required_report(report("skipped"))
    assert changed.failed
    assert "codex is not installed" in str(changed.longrepr)


def test_other_outcomes_are_unchanged() -> None:
    assert required_report(report("passed")).passed
    expected = report("skipped")
    expected.wasxfail = "known"
    assert required_report(expected).skipped
