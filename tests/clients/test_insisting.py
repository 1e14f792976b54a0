"""Where every client must be driven, one that is not installed is a failure."""

import pytest

from tests.clients.conftest import insisted


def report(outcome: str) -> pytest.TestReport:
    why = ("test.py", 1, "Skipped: codex is not installed") if outcome == "skipped" else None
    return pytest.TestReport("test.py::test", ("test.py", 1, "test"), {}, outcome, why, "setup")  # pyright: ignore[reportArgumentType]


def test_a_test_that_was_skipped_has_failed() -> None:
    told = insisted(report("skipped"))
    assert told.failed
    assert "codex is not installed" in str(told.longrepr)


def test_others_stay_as_they_are() -> None:
    assert insisted(report("passed")).passed
    expected = report("skipped")
    expected.wasxfail = "known"
    assert insisted(expected).skipped
