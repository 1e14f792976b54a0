"""The text of a document, in sections; and why a document has none."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Kind = Literal[
    "code",
    "csv",
    "docx",
    "eml",
    "html",
    "json",
    "markdown",
    "ods",
    "pdf",
    "pptx",
    "rtf",
    "text",
    "xls",
    "xlsx",
]
SectionType = Literal["page", "slide", "sheet", "attachment"]

MAX_TEXT_CHARS = 10_000_000
"""Of one document; the rest is left out."""
PAGE_BREAK = "\f"
"""A separate line between the sections of a document; texts of sections contain none."""


class Section(Struct, frozen=True, array_like=True):
    """A part of a document. Only documents of one part have a section without a label."""

    text: str
    label: str = ""
    """Such as ``page 3`` or ``sheet Costs``."""
    type: SectionType | None = None


class Document(Struct, frozen=True, array_like=True):
    """What was read of a file."""

    kind: Kind
    sections: tuple[Section, ...]
    empty_pages: tuple[int, ...] = ()
    """Pages of a PDF that have no text, from 1."""
    omissions: tuple[str, ...] = ()
    """What was left out, one sentence each."""

    @property
    def text(self) -> str:
        """All of it; sections are separated by page breaks."""
        return f"\n{PAGE_BREAK}\n".join(section.text for section in self.sections)

    @property
    def is_markdown(self) -> bool:
        """Whether the text is Markdown, by itself or because it was converted to it."""
        return self.kind not in ("code", "json", "pdf", "rtf", "text")


Fault = Literal["unsupported_file", "invalid_file", "reader_not_installed"]
"""`unsupported_file`: its type is not read here. `invalid_file`: it is damaged, too large, or has no text."""


class Unreadable(Exception):
    """A file of which no text can be had. The message is for whoever sent the file."""

    def __init__(self, code: Fault, message: str) -> None:
        super().__init__(message)
        self.code: Fault = code
        self.message = message


class SectionList:
    """Collects sections up to the limit of characters."""

    def __init__(self, unit: str, max_chars: int = MAX_TEXT_CHARS) -> None:
        self._unit = unit
        self._room = self._max_chars = max_chars
        self.sections: list[Section] = []
        self.omissions: list[str] = []

    @property
    def is_full(self) -> bool:
        return self._room <= 0

    def add(self, text: str, label: str = "", type: SectionType | None = None) -> None:
        """Add a section, or the part of it that fits."""
        text = _storable(text).replace(PAGE_BREAK, " ")
        if len(text) > self._room:
            text = text[: max(0, self._room)]
            self.omit(f"the text after the first {self._max_chars:,} characters is left out")
        self._room -= len(text)
        self.sections.append(Section(text, _storable(label), type))

    def omit(self, what: str) -> None:
        """Say once that something is left out."""
        what = _storable(what)
        if what not in self.omissions:
            self.omissions.append(what)

    def document(self, kind: Kind, empty_pages: Iterable[int] = ()) -> Document:
        """The document. Raises `Unreadable` if no section has text."""
        if not any(section.text.strip() for section in self.sections):
            raise Unreadable("invalid_file", f"The {self._unit} contains no text.")
        return Document(kind, tuple(self.sections), tuple(empty_pages), tuple(self.omissions))


def first_part(document: Document, max_chars: int) -> Document:
    """The document with at most so many characters of text."""
    sections: list[Section] = []
    room = max_chars
    for section in document.sections:
        if len(section.text) > room:
            sections.append(replace(section, text=section.text[:room]))
            return replace(document, sections=tuple(sections))
        sections.append(section)
        room -= len(section.text)
    return document


def _storable(text: str) -> str:
    """The text without halves of surrogate pairs, which cannot be encoded."""
    return text.encode("utf-8", "replace").decode()
