"""Content parts for messages: text, images and PDF files, from a URL, from bytes or from a file."""

import base64
from pathlib import Path

from antiphon.documents.document import Unreadable
from antiphon.documents.reader import read_blocking
from antiphon.errors import InvalidRequest, SettingsError
from antiphon.protocol.content import JsonObject

Source = str | bytes | Path
"""An `https:` URL, the content itself, or a file."""

MAX_PART_BYTES = 32 * 1024 * 1024
PDF_NAME = "document.pdf"
"""The file name of a PDF that was passed as bytes."""


def text(content: str) -> JsonObject:
    return {"type": "input_text", "text": content}


def image(source: Source) -> JsonObject:
    """An image: PNG, JPEG, GIF or WebP."""
    if isinstance(source, str):
        return {"type": "input_image", "image_url": _checked_url(source)}
    content = _read(source)
    return {"type": "input_image", "image_url": _data_url(_image_type(content), content)}


def pdf(source: Source) -> JsonObject:
    """A PDF file, for models that read PDF."""
    if isinstance(source, str):
        return {"type": "input_file", "file_url": _checked_url(source)}
    content = _read_pdf(source)
    name = source.name if isinstance(source, Path) else PDF_NAME
    return {"type": "input_file", "filename": name, "file_data": _data_url("application/pdf", content)}


def pdf_text(source: bytes | Path) -> JsonObject:
    """The text of a PDF file, page by page, for models that take no files; needs ``antiphon[documents]``."""
    content = _read_pdf(source)
    try:
        pages = read_blocking(content).sections
    except Unreadable as error:
        if error.code == "reader_not_installed":
            raise SettingsError(error.message) from None
        raise _refused(error.message) from None
    return text("\n\n".join(f"[PAGE {number}]\n{page.text}" for number, page in enumerate(pages, start=1)))


def _checked_url(source: str) -> str:
    if not source.startswith("https://"):
        raise _refused(f"'{source[:100]}' is not an https URL. For a local file, pass a Path.")
    return source


def _read(source: bytes | Path) -> bytes:
    """The content. The size of a file is checked before it is read."""
    try:
        size = source.stat().st_size if isinstance(source, Path) else len(source)
        if size > MAX_PART_BYTES:
            raise _refused(f"The content has {size:,} bytes; the limit is {MAX_PART_BYTES:,}.")
        return source.read_bytes() if isinstance(source, Path) else source
    except OSError as error:
        raise _refused(f"The file '{source}' cannot be read: {error.strerror}.") from None


def _read_pdf(source: bytes | Path) -> bytes:
    content = _read(source)
    if b"%PDF-" not in content[:1024]:  # readers allow leading bytes
        raise _refused("This is not a PDF: it does not begin with '%PDF-'.")
    return content


def _image_type(content: bytes) -> str:
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    raise _refused("Unknown image format: use PNG, JPEG, GIF or WebP.")


def _data_url(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(message, param="source")
