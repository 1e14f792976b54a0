"""PDF files, page by page, with PDFium."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from antiphon.documents.document import Document, SectionList, Unreadable

MAX_PAGES = 5_000
SCAN_PROBE_PAGES = 20
"""How many pages without text are searched for pictures."""
IMAGE_SIDE_PIXELS = 1_400
"""The longer side of a page image: enough for small print, and below what most models scale down to."""
_IMAGE_QUALITY = 80
_HYPHEN = re.compile("[\x02\ufffe]\n?")
"""How PDFium writes a hyphen that only divides a word at the end of a line."""


def read_pdf(data: bytes, name: str) -> Document:
    """The text of all pages; a page without text keeps its place."""
    with _opened(data) as pdf:
        found = SectionList("PDF")
        for number in range(len(pdf)):
            if found.is_full:
                found.omit(f"the pages after {number} are left out")
                break
            found.add(_page_text(pdf, number), f"page {number + 1}", "page")
        empty = [number for number, page in enumerate(found.sections, 1) if not page.text]
        if len(empty) == len(found.sections):
            raise Unreadable("invalid_file", _no_text(pdf))
        if empty:
            found.omit(f"{_pages(empty)} no text")
        return found.document("pdf", empty)


def page_images(data: bytes, pages: list[int]) -> list[bytes]:
    """These pages, from 1, as JPEG images. Raises `Unreadable` for a damaged one."""
    import pypdfium2  # noqa: PLC0415 -- optional: the [documents] extra

    with _opened(data) as pdf:
        try:
            return _images(pdf, pages)
        except (pypdfium2.PdfiumError, ValueError, OSError):  # the last two are those of the image library
            message = "The PDF is damaged: a page of it cannot be drawn."
            raise Unreadable("invalid_file", message) from None


def _images(pdf: Any, pages: list[int]) -> list[bytes]:
    return [_image(pdf, number - 1) for number in pages if 0 < number <= len(pdf)]


@contextmanager
def _opened(data: bytes) -> Generator[Any]:
    import pypdfium2  # noqa: PLC0415 -- optional: the [documents] extra

    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("invalid_file", "The PDF is protected by a password.") from None
        raise Unreadable("invalid_file", "The PDF is damaged: it cannot be read.") from None
    try:
        if len(pdf) > MAX_PAGES:
            message = f"The PDF has {len(pdf):,} pages; the limit is {MAX_PAGES:,}. Send it in parts."
            raise Unreadable("invalid_file", message)
        yield pdf
    finally:
        pdf.close()


def _page_text(pdf: Any, number: int) -> str:
    import pypdfium2  # noqa: PLC0415 -- optional: the [documents] extra

    try:
        page = pdf[number]
    except pypdfium2.PdfiumError:  # one damaged page
        return ""
    try:
        text = page.get_textpage()
        try:
            return _HYPHEN.sub("", text.get_text_bounded().replace("\r\n", "\n")).strip()
        finally:
            text.close()
    except pypdfium2.PdfiumError:
        return ""
    finally:
        page.close()


def _no_text(pdf: Any) -> str:
    if len(pdf) == 0:
        return "The PDF has no pages."
    count = f"{len(pdf):,} pages are" if len(pdf) > 1 else "page is"
    if any(_has_pictures(pdf, number) for number in range(min(len(pdf), SCAN_PROBE_PAGES))):
        return (
            f"The PDF is a scan: its {count} pictures without text. Send pages as images, or a file in which "
            "the text was recognised (OCR)."
        )
    return "The PDF contains no text."


def _has_pictures(pdf: Any, number: int) -> bool:
    import pypdfium2  # noqa: PLC0415 -- optional: the [documents] extra
    from pypdfium2 import raw  # noqa: PLC0415

    try:
        page = pdf[number]
    except pypdfium2.PdfiumError:
        return False
    try:
        return next(iter(page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE])), None) is not None
    except pypdfium2.PdfiumError:
        return False
    finally:
        page.close()


def _pages(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
    return f"page {shown} has" if len(numbers) == 1 else f"pages {shown} have"


def _image(pdf: Any, number: int) -> bytes:
    page = pdf[number]
    try:
        scale = IMAGE_SIDE_PIXELS / max(1.0, *page.get_size())
        image = BytesIO()
        page.render(scale=scale).to_pil().convert("RGB").save(image, "JPEG", quality=_IMAGE_QUALITY)
        return image.getvalue()
    finally:
        page.close()
