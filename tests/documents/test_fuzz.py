"""Any bytes and any text: always a text or an error that says why. tests/fuzz damages files of each format."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.documents.detection import glance
from antiphon.documents.document import Unreadable
from antiphon.documents.reading import read_document
from tests.documents.files import SAMPLES

PURE = ("a.csv", "a.html", "a.md", "a.txt", "a.json", "a.eml", "a.rtf", "a.py")
"""Formats whose parsers are in Python: they can be tried in this process."""


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2000), st.sampled_from(["", *SAMPLES]))
def test_any_bytes_are_text_or_an_error(data: bytes, name: str) -> None:
    try:
        document = read_document(data, name)
    except Unreadable as error:
        assert error.message
    else:
        assert document.text.strip()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=2000), st.sampled_from(PURE), st.sampled_from(["utf-8", "utf-16", "utf-32-be"]))
def test_any_text_is_text_or_an_error(text: str, name: str, encoding: str) -> None:
    data = text.encode(encoding, "replace")
    try:
        kind = glance(data, name)
        document = read_document(data, name)
    except Unreadable:
        return
    if kind in ("code", "markdown", "text"):
        assert document.text.replace(" ", "") == text.encode(encoding, "replace").decode(encoding).replace(
            "\f", " "
        ).replace(" ", "").removeprefix("\ufeff")
