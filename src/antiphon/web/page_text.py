"""The text of a downloaded page. A page may be hostile: `WebPageReader` runs this in a child process."""

import codecs

import msgspec
from msgspec import Struct

from antiphon.documents.document import Document, Unreadable
from antiphon.documents.encoding import is_marked
from antiphon.documents.reading import ReadFault, read_document

MAX_PAGE_CHARACTERS = 1_000_000
"""Of the text of one page; the rest is left out."""
MAX_TITLE_LINES = 5
"""The title is a heading among so many first lines."""


class PageJob(Struct, frozen=True, array_like=True):
    """A page to read. `charset` is that of the answer's header; it may be empty or wrong."""

    data: bytes
    name: str
    charset: str


class PageText(Struct, frozen=True, array_like=True, tag="page"):
    """The text of a page."""

    title: str
    text: str
    is_cut: bool


_JOBS = msgspec.msgpack.Decoder(PageJob)


def read_page_encoded(payload: bytes) -> bytes:
    """The work of a child: a `PageJob`. The result is a `PageText` or a `ReadFault`."""
    job = _JOBS.decode(payload)
    try:
        document = read_document(_in_utf8(job), job.name)
    except Unreadable as error:
        return msgspec.msgpack.encode(ReadFault(error.code, error.message))
    text = _text(document)
    is_cut = len(text) > MAX_PAGE_CHARACTERS
    return msgspec.msgpack.encode(PageText(_title(text), text[:MAX_PAGE_CHARACTERS], is_cut))


def _in_utf8(job: PageJob) -> bytes:
    """Text in the encoding that the header names. If that is not its encoding, the reader finds it out."""
    if not job.charset or is_marked(job.data):
        return job.data
    try:
        return codecs.BOM_UTF8 + job.data.decode(job.charset).encode()
    except (LookupError, ValueError):
        return job.data


def _text(document: Document) -> str:
    """All sections, under their labels."""
    return "\n\n".join(
        f"[{section.label}]\n{section.text}" if section.label else section.text
        for section in document.sections
    )


def _title(text: str) -> str:
    """The first heading, which for HTML is the title of the page."""
    lines = text[:2_000].splitlines()[:MAX_TITLE_LINES]
    return next((line.lstrip("# ").strip() for line in lines if line.startswith("#")), "")
