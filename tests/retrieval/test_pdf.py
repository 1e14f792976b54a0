"""The text of PDF files."""

from concurrent.futures import ThreadPoolExecutor

from antiphon.retrieval.pdf import can_read_pdf, pdf_text
from tests.retrieval.pdf_file import pdf_file


def test_pages_are_separated() -> None:
    assert can_read_pdf()
    assert pdf_text(pdf_file("Hello cat", "Hello dog")) == "Hello cat\n\f\nHello dog"


def test_an_invalid_pdf_has_no_text() -> None:
    assert pdf_text(b"") is None
    assert pdf_text(b"%PDF-1.4 and then nothing") is None


def test_many_threads_may_ask() -> None:
    data = pdf_file("Hello cat")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(pdf_text, [data] * 100)) == {"Hello cat"}
