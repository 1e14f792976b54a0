"""One design document as a value: parsed liberally, rendered in one form.

### AGN-004
**Title:** Result Mapping
**Status:** Proposed
**Domain:** Orchestrator
**Owner:** Ada
**Tags:** mapping, tools

---

## Objective …
"""

import re

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.documents.naming import (
    DIGITS,
    LETTERS,
    MAX_NUMBER,
    check_letters,
    format_id,
    make_file_name,
    split_file_name,
)
from antiphon.orchestrator.documents.status import FIRST, Status, read_status

SECTIONS = (
    "Objective",
    "Context",
    "Design/Approach",
    "Risks/Open Questions",
    "Testing Strategy",
    "Notes/Rationale",
)
"""The sections of a document, in this order."""

DAMAGED = "damaged_document"
"""The error code for a document that cannot be parsed."""

_OWN = ("Title", "Status", "Domain", "Owner", "Tags")
_OWN_KEYS = frozenset(name.lower() for name in _OWN)
_HEADING = re.compile(rf"#{{1,6}}[ \t]+(?:\*\*)?({LETTERS})-({DIGITS})(?!\w)(.*)", re.DOTALL)
_LINE = re.compile(r"\*\*([^*:\n]+)(?::[ \t]*\*\*|\*\*[ \t]*:)(.*)", re.DOTALL)
_RULE = re.compile(r"-{3,}[ \t]*")
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")


class DesignDocument(Struct, frozen=True, kw_only=True):
    """A document. Raises `InvalidRequest` for values that a file cannot represent; surrounding whitespace is
    removed."""

    tla: str
    """Its series: three capital letters."""
    number: int
    title: str
    status: Status = FIRST
    domain: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    further: tuple[tuple[str, str], ...] = ()
    """Header lines of other names, with their values."""
    body: str = ""

    def __post_init__(self) -> None:
        check_letters(self.tla)
        if not 0 < self.number <= MAX_NUMBER:
            raise InvalidRequest(f"A document cannot have the number {self.number}.", param="id")
        normal = {
            "title": check_title(self.title),
            "domain": _one_line(self.domain, "domain"),
            "owner": _one_line(self.owner, "owner"),
            "tags": tuple(tag for given in self.tags for tag in _split_tags(given)),
            "further": tuple(_normal_further(name, value) for name, value in self.further),
            "body": _normal_body(self.body),
        }
        for name, value in normal.items():
            msgspec.structs.force_setattr(self, name, value)

    @property
    def id(self) -> str:
        """Series and number: `AGN-004`."""
        return format_id(self.tla, self.number)

    @property
    def file_name(self) -> str:
        """The name of its file when it is created."""
        return make_file_name(self.tla, self.number, self.title)

    def render(self) -> str:
        own = (self.title, self.status.value, self.domain, self.owner, ", ".join(self.tags))
        lines = [*zip(_OWN, own, strict=True), *self.further]
        header = "\n".join(f"**{name}:** {value}  " if value else f"**{name}:**  " for name, value in lines)
        body = f"\n{self.body}\n" if self.body else ""
        return f"### {self.id}\n{header}\n\n---\n{body}"


def blank_body() -> str:
    """The empty sections of a new document."""
    return "\n\n".join(f"## {section}" for section in SECTIONS)


def check_title(title: str) -> str:
    """The title on one line. Raises `InvalidRequest` if it is blank."""
    normal = _one_line(title, "title")
    if not normal:
        raise InvalidRequest("A document needs a title.", param="title")
    return normal


def parse(text: str, file_name: str) -> DesignDocument:
    """Parse a document. Raises `InvalidRequest` with the code `damaged_document`."""
    try:
        return _parse(text, file_name)
    except InvalidRequest as error:
        raise InvalidRequest(f"'{file_name}' is damaged: {error.message}", code=DAMAGED) from None


def _parse(text: str, file_name: str) -> DesignDocument:
    named = split_file_name(file_name)
    if named is None:
        raise InvalidRequest("The file name is not of the form 'AGN-004 - Title.md'.")
    tla, number, file_title = named
    lines = _BLANK_LINES.sub("", _unix_lines(text).removeprefix("\ufeff")).split("\n")
    heading_title = _take_heading(lines, format_id(tla, number))
    header, body = _split_header(lines)
    own = {name.lower(): value for name, value in header if name.lower() in _OWN_KEYS}
    further = tuple((name, value) for name, value in header if name.lower() not in _OWN_KEYS)
    if len(own) + len(further) < len(header):
        raise InvalidRequest("A line of its header occurs twice.")
    if "status" not in own:
        raise InvalidRequest("Its header has no line '**Status:** …'.")
    return DesignDocument(
        tla=tla,
        number=number,
        title=own.get("title") or heading_title or file_title,
        status=read_status(own["status"]),
        domain=own.get("domain", ""),
        owner=own.get("owner", ""),
        tags=(own.get("tags", ""),),
        further=further,
        body=body,
    )


def _take_heading(lines: list[str], document_id: str) -> str:
    """Remove the heading, if any, and return the title in it."""
    heading = _HEADING.fullmatch(lines[0])
    if heading is None:
        return ""
    found = format_id(heading[1], int(heading[2]))
    if found != document_id:
        raise InvalidRequest(f"Its file name has the id {document_id}, but its heading has {found}.")
    del lines[0]
    return heading[3].strip().removeprefix("**").removesuffix("**").lstrip("—–:- \t").strip()


def _split_header(lines: list[str]) -> tuple[list[tuple[str, str]], str]:
    """The bold lines, and the text after them or after the rule that ends them."""
    header: list[tuple[str, str]] = []
    for number, line in enumerate(lines):
        found = _LINE.fullmatch(line)
        if found is not None:
            header.append((found[1].strip(), found[2].strip()))
        elif _RULE.fullmatch(line):
            return header, "\n".join(lines[number + 1 :])
        elif line.strip():
            return header, "\n".join(lines[number:])
    return header, ""


def _split_tags(text: str) -> list[str]:
    return [tag.strip() for tag in _one_line(text, "tags").split(",") if tag.strip()]


def _normal_further(name: str, value: str) -> tuple[str, str]:
    normal = _one_line(name, "further")
    if not normal or ":" in normal or "*" in normal or normal.lower() in _OWN_KEYS:
        raise InvalidRequest(f"'{name}' cannot name a further line of the header.", param="further")
    return normal, _one_line(value, "further")


def _normal_body(text: str) -> str:
    return _BLANK_LINES.sub("", _unix_lines(_storable(text, "markdownBody"))).rstrip()


def _one_line(text: str, param: str) -> str:
    normal = _storable(text, param).strip()
    if "\n" in normal or "\r" in normal:
        raise InvalidRequest(f"The {param} of a document must be one line.", param=param)
    return normal


def _storable(text: str, param: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"The {param} of a document must be valid Unicode text.", param=param) from None
    return text


def _unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
