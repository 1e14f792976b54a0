"""The text of PDF files, with pypdfium2 (`antiphon[documents]`)."""

import importlib.util
import threading
from typing import Any

from antiphon.retrieval.outline import PAGE_BREAK

_pdfium_lock = threading.Lock()
"""PDFium may be used by one thread of a process at a time, so all PDF files are read here."""


def can_read_pdf() -> bool:
    """Whether the extra is installed."""
    return importlib.util.find_spec("pypdfium2") is not None


def pdf_text(data: bytes) -> str | None:
    """The text of all pages, separated by page breaks; None: not a readable PDF. Blocking."""
    import pypdfium2  # noqa: PLC0415 -- optional: the [documents] extra

    with _pdfium_lock:
        try:
            document = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError:
            return None
        try:
            return f"\n{PAGE_BREAK}\n".join(_page(document, number) for number in range(len(document)))
        except pypdfium2.PdfiumError:
            return None
        finally:
            document.close()


def _page(document: Any, number: int) -> str:
    page = document[number]
    text = page.get_textpage()
    try:
        return text.get_text_bounded().replace(PAGE_BREAK, " ")
    finally:
        text.close()
        page.close()
