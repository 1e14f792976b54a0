"""Content parts for messages: text, images and PDF files, from a URL, from bytes or from a file."""

import base64
from pathlib import Path

from antiphon.errors import InvalidRequest, SettingsError
from antiphon.extras import install_command
from antiphon.protocol.content import JsonObject
from antiphon.retrieval.outline import PAGE_BREAK
from antiphon.retrieval.pdf import pdf_text as read_pdf

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
        read = read_pdf(content)
    except ImportError:
        raise SettingsError(f"pdf_text() needs a PDF reader: {install_command('documents')}") from None
    if read is None:
        raise _refused("The PDF cannot be read: it is damaged or encrypted.")
    pages = [page.strip() for page in read.split(PAGE_BREAK)]
    if not any(pages):
        raise _refused("The PDF contains no text. If it is scanned, send its pages as images.")
    return text("\n\n".join(f"[PAGE {number}]\n{page}" for number, page in enumerate(pages, start=1)))


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
