"""Reads a document in this process. Parsers may crash or never end: `DocumentReader` runs this in a child."""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Struct

from antiphon.documents.detection import detect
from antiphon.documents.document import MAX_TEXT_CHARS, Document, Fault, Kind, Unreadable, first_part
from antiphon.documents.formats.docx import read_docx
from antiphon.documents.formats.eml import MAX_DEPTH, read_eml
from antiphon.documents.formats.html import read_html
from antiphon.documents.formats.pdf import page_images, read_pdf
from antiphon.documents.formats.pptx import read_pptx
from antiphon.documents.formats.spreadsheet import read_spreadsheet
from antiphon.documents.formats.texts import read_csv, read_json, read_rtf, read_text
from antiphon.extras import install_command

EXTRA = "documents"
_READERS: dict[Kind, Callable[[bytes, str], Document]] = {
    "code": partial(read_text, kind="code"),
    "csv": read_csv,
    "docx": read_docx,
    "html": read_html,
    "json": read_json,
    "markdown": partial(read_text, kind="markdown"),
    "ods": partial(read_spreadsheet, kind="ods"),
    "pdf": read_pdf,
    "pptx": read_pptx,
    "rtf": read_rtf,
    "text": read_text,
    "xls": partial(read_spreadsheet, kind="xls"),
    "xlsx": read_spreadsheet,
}


class ReadJob(Struct, frozen=True, array_like=True):
    """A file to read."""

    data: bytes
    name: str
    max_chars: int = MAX_TEXT_CHARS
    """Of the text that is wanted."""


class ImageJob(Struct, frozen=True, array_like=True):
    """Pages of a PDF file to draw, from 1."""

    data: bytes
    pages: list[int]


class ReadFault(Struct, frozen=True, array_like=True, tag="fault"):
    """Why a file has no text."""

    code: Fault
    message: str


class ReadResult(Struct, frozen=True, array_like=True, tag="read"):
    """The text of a file."""

    document: Document


class ImageResult(Struct, frozen=True, array_like=True, tag="images"):
    """The drawn pages."""

    images: list[bytes]


_READ_JOBS = msgspec.msgpack.Decoder(ReadJob)
_IMAGE_JOBS = msgspec.msgpack.Decoder(ImageJob)


def read_document(data: bytes, name: str = "", depth: int = 0) -> Document:
    """The text of a file. Raises `Unreadable` whatever the file holds, but a `MemoryError`."""
    kind = detect(data, name)
    try:
        if kind == "eml":
            inner = partial(read_document, depth=depth + 1) if depth < MAX_DEPTH else None
            return read_eml(data, name, inner)
        return _READERS[kind](data, name)
    except (Unreadable, MemoryError):
        raise
    except ModuleNotFoundError:
        message = f"This server cannot read {kind.upper()} files. To enable it: {install_command(EXTRA)}"
        raise Unreadable("reader_not_installed", message) from None
    except Exception as error:  # parsers raise anything
        message = f"The {kind.upper()} file is damaged: it cannot be read."
        raise Unreadable("invalid_file", message) from error


def read_encoded(payload: bytes) -> bytes:
    """The work of a child: a `ReadJob`."""
    job = _READ_JOBS.decode(payload)
    try:
        result = ReadResult(first_part(read_document(job.data, job.name), job.max_chars))
    except Unreadable as error:
        result = ReadFault(error.code, error.message)
    return msgspec.msgpack.encode(result)


def draw_encoded(payload: bytes) -> bytes:
    """The work of a child: an `ImageJob`."""
    job = _IMAGE_JOBS.decode(payload)
    try:
        result = ImageResult(page_images(job.data, job.pages))
    except Unreadable as error:
        result = ReadFault(error.code, error.message)
    return msgspec.msgpack.encode(result)
