"""Log lines."""

import logging
import re
import sys

import pytest

from antiphon.cli.log import MAX_LINES_PER_SECOND, LineFormatter, LineLimit, configure_logging
from antiphon.known_secrets import KNOWN_SECRETS


def record(message: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("antiphon.test", level, __file__, 1, message, (), None)


def test_a_line_has_time_level_logger_and_message() -> None:
    line = LineFormatter(colours=False).format(record("hello"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO antiphon\.test: hello", line)


def test_a_message_cannot_forge_a_line_or_steer_the_terminal() -> None:
    line = LineFormatter(colours=False).format(record("one\r\ntwo\x1b[2J\n"))
    assert line.endswith("antiphon.test: one\\x0d\\x0atwo\\x1b[2J")


def test_the_level_has_a_colour_only_on_request() -> None:
    warning = record("careful", logging.WARNING)
    assert "\x1b[33mWARNING\x1b[0m" in LineFormatter(colours=True).format(warning)
    assert warning.levelname == "WARNING"


def test_logging_goes_to_standard_error_from_the_chosen_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning")
    configure_logging("warning")
    logging.getLogger("antiphon.test").info("quiet")
    logging.getLogger("antiphon.test").warning("loud")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("loud") == 1
    assert "quiet" not in captured.err


def test_secrets_are_in_no_line_and_no_traceback() -> None:
    KNOWN_SECRETS.add("canary-of-the-log-000001")
    try:
        raise ValueError("canary-of-the-log-000001")
    except ValueError:
        broken = record("GET /v1?key=canary2 with canary-of-the-log-000001")
        broken.exc_info = sys.exc_info()
    text = LineFormatter(colours=False).format(broken)
    assert "canary" not in text
    assert "ValueError: [redacted]" in text
    assert "GET /v1?key=[redacted] with [redacted]" in text


def test_a_flood_of_lines_is_cut_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logging("info")
    monkeypatch.setattr("time.time", lambda: 1_000.5)
    flood, other = logging.getLogger("antiphon.test.flood"), logging.getLogger("antiphon.test.other")
    for number in range(3 * MAX_LINES_PER_SECOND):
        flood.info("refused %d", number)
    other.info("still here")
    flood.error("broken")
    monkeypatch.setattr("time.time", lambda: 1_001.0)
    flood.info("a second later")
    lines = capsys.readouterr().err.splitlines()
    refused = [line for line in lines if "refused" in line]
    assert len(refused) == MAX_LINES_PER_SECOND
    assert refused[-1].endswith("(more lines of antiphon.test.flood in this second are left out)")
    assert [line.rpartition(": ")[2] for line in lines[len(refused) :]] == [
        "still here",
        "broken",
        "a second later",
    ]


def test_the_audit_log_is_complete() -> None:
    limit = LineLimit()
    use = logging.LogRecord("antiphon.audit", logging.INFO, __file__, 1, "tool=x", (), None)
    assert all(limit.filter(use) for _ in range(2 * MAX_LINES_PER_SECOND))
