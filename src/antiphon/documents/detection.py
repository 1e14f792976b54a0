"""Finds out what a file is, by its content. Its name decides only among texts: a CSV file may be any text."""

import io
import re
import zipfile
from pathlib import PurePosixPath
from typing import Literal

from antiphon.documents.document import Kind, Unreadable
from antiphon.documents.encoding import decode_beginning
from antiphon.documents.zip_bounds import check_archive

PROBE_BYTES = 16 * 1024
PROBE_CHARS = 4096
PDF_PROBE_BYTES = 1024
"""Readers allow other bytes before the header of a PDF file."""

_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MARKDOWN_NAMES = frozenset({".md", ".markdown", ".mdown", ".mkd"})
_TABLE_NAMES = frozenset({".csv", ".tsv"})
_TEXT_NAMES = frozenset({"", ".txt", ".text", ".log", ".srt", ".vtt"})
_HTML_TAG = re.compile(
    r"\s*(<\?xml[^>]*>\s*)?(<!--(?:(?!-->).)*-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S
)
_MAIL_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]?")
_MAIL_NAMES = frozenset(
    {"from", "to", "subject", "date", "message-id", "received", "mime-version", "return-path", "delivered-to"}
)
_MARKDOWN = re.compile(r"^(#{1,6} \S|```|\|.+\|\s*\n\|\s*:?-)", re.M)


def detect(data: bytes, name: str = "") -> Kind:
    """The kind of a file. Raises `Unreadable` if it is not read here."""
    kind = glance(data, name)
    return _zipped(data) if kind == "zip" else kind


def glance(data: bytes, name: str = "") -> Kind | Literal["zip"]:
    """The same without a look into archives, so it is cheap. Raises the same."""
    if not data:
        raise Unreadable("invalid_file", "The file is empty.")
    return _binary(data) or detect_text(decode_beginning(data, PROBE_BYTES), name)


def _binary(data: bytes) -> Kind | Literal["zip"] | None:
    if b"%PDF-" in data[:PDF_PROBE_BYTES]:
        return "pdf"
    if data.startswith(b"PK\x03\x04"):
        return "zip"
    if data.startswith(_OLE):
        return _ole(data)
    if data.startswith(b"{\\rtf"):
        return "rtf"
    image = next((form for magic, form in _IMAGES.items() if data.startswith(magic)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        image = "WebP"
    if image is not None:
        message = f"This is an image ({image}), not a document. Send it as 'input_image'."
        raise Unreadable("unsupported_file", message)
    return None


def _zipped(data: bytes) -> Kind:
    """The kind of an office document."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_archive(archive)
            names = set(archive.namelist())
            mime = _beginning(archive, "mimetype") if "mimetype" in names else b""
    except (Unreadable, MemoryError):
        raise
    except Exception:  # noqa: BLE001 -- besides its own errors, those of every way to compress
        raise Unreadable("invalid_file", "The file is damaged: its ZIP archive cannot be read.") from None
    if "word/document.xml" in names:
        return "docx"
    if "ppt/presentation.xml" in names:
        return "pptx"
    if names & {"xl/workbook.xml", "xl/workbook.bin"}:
        return "xlsx"
    if mime.startswith(b"application/vnd.oasis.opendocument.spreadsheet"):
        return "ods"
    message = "This is a ZIP archive, not a document that is read here. Send the files in it one by one."
    raise Unreadable("unsupported_file", message)


def _beginning(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as member:
        return member.read(PROBE_BYTES)


def _ole(data: bytes) -> Kind:
    """An office document of the years before 2007, or an encrypted one."""
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise Unreadable("invalid_file", "The file is protected by a password.")
    if "Workbook".encode("utf-16-le") in data:
        return "xls"
    message = "This format of Office 97 is not read here. Save the file as DOCX, PPTX or PDF."
    raise Unreadable("unsupported_file", message)


def detect_text(text: str, name: str = "") -> Kind:
    """The kind of a text, by its beginning and its name."""
    probe = text[:PROBE_CHARS].lstrip("\ufeff")
    extension = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    if _HTML_TAG.match(probe):
        return "html"
    if _is_mail(probe):
        return "eml"
    if extension in _TABLE_NAMES:
        return "csv"
    if extension == ".json" or (
        extension in _TEXT_NAMES and probe.lstrip()[:2] in ('{"', "[{", "{\n", "[\n")
    ):
        return "json"
    if extension in _MARKDOWN_NAMES:
        return "markdown"
    if extension not in _TEXT_NAMES:
        return "code"
    if extension == "" and _is_table(probe):
        return "csv"
    return "markdown" if _MARKDOWN.search(probe) else "text"


def _is_mail(probe: str) -> bool:
    """Whether it begins with headers of which at least two are those of mail."""
    known = 0
    for line in probe.splitlines():
        if not line.strip():
            break
        header = _MAIL_HEADER.match(line)
        if header is None and not line[:1].isspace():
            return False
        known += header is not None and header[1].lower() in _MAIL_NAMES
    return known >= 2


def _is_table(probe: str) -> bool:
    """Whether all lines have the same number of the same separator, at least two columns and three rows."""
    lines = [line for line in probe.splitlines()[:-1] if line.strip()][:20]
    return len(lines) >= 3 and any(
        lines[0].count(mark) >= 1 and len({line.count(mark) for line in lines}) == 1 for mark in "\t;,"
    )
