"""Upstream messages are shown without secrets, on one line, and truncated."""

import pytest

from antiphon.http.redact import excerpt, redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-abc12***xyz9. See", "Incorrect API key provided: [redacted]. See"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
        ("Authorization: Bearer KEY-abc", "Authorization: Bearer [redacted]"),
        ("Send it as `Authorization: Bearer KEY`.", "Send it as `Authorization: Bearer KEY`."),
        ("Sent as `Authorization: Bearer k3y`.", "Sent as `Authorization: Bearer [redacted]"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [redacted]"),
        ("key sk-proj-ABCDEFGH12345678!", "key [redacted]!"),
        ("gsk_ABCDEFGHIJKLMNOP", "[redacted]"),
        ("AIzaSyA1234567890abc", "[redacted]"),
        ("eyJhbGciOiJI.eyJzdWIi.abc", "[redacted]"),
        ("GET /v1?key=abcdef123&x=1", "GET /v1?key=[redacted]&x=1"),
        ("http://user:pw@host/v1", "http://[redacted]@host/v1"),
        ("a basic understanding of risk-adjusted skill", "a basic understanding of risk-adjusted skill"),
        ("two\nlines\t here", "two lines here"),
    ],
)
def test_text_that_looks_like_a_secret_is_redacted(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_a_known_secret_is_redacted_as_a_complete_word() -> None:
    assert redact("my x is in x-ray: x.", ["x"]) == "my [redacted] is in x-ray: [redacted]."


def test_long_texts_are_truncated() -> None:
    assert redact("word " * 1000, limit=20) == "word word word word…"


def test_a_page_is_shown_without_its_markup() -> None:
    page = b"<html><head><title>502 Bad Gateway</title><style>a{}</style></head><body>nginx</body></html>"
    assert excerpt(page) == "502 Bad Gateway nginx"


def test_bytes_that_are_no_text_are_shown_as_far_as_possible() -> None:
    assert excerpt(b"\xff\xfe ok") == "\ufffd\ufffd ok"
