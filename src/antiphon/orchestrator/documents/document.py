"""One design document as a value: read from what people and models write, written in one form.

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
    make_file_name,
    say_id,
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
"""What a document talks about, in this order."""

DAMAGED = "damaged_document"
"""The code of the refusal of a document that cannot be understood."""

_OWN = ("Title", "Status", "Domain", "Owner", "Tags")
_OWN_KEYS = frozenset(name.lower() for name in _OWN)
_HEADING = re.compile(rf"#{{1,6}}[ \t]+(?:\*\*)?({LETTERS})-({DIGITS})(?!\w)(.*)", re.DOTALL)
_LINE = re.compile(r"\*\*([^*:\n]+)(?::[ \t]*\*\*|\*\*[ \t]*:)(.*)", re.DOTALL)
_RULE = re.compile(r"-{3,}[ \t]*")
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")


class DesignDocument(Struct, frozen=True, kw_only=True):
    """A document. What no file can hold is refused; blanks at the ends, which none keeps, are cut off."""

    tla: str
    """The series that it belongs to: three capital letters."""
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
        settled = {
            "title": check_title(self.title),
            "domain": _one_line(self.domain, "domain"),
            "owner": _one_line(self.owner, "owner"),
            "tags": tuple(tag for given in self.tags for tag in _split_tags(given)),
            "further": tuple(_settle_further(name, value) for name, value in self.further),
            "body": _settle_body(self.body),
        }
        for name, value in settled.items():
            msgspec.structs.force_setattr(self, name, value)

    @property
    def id(self) -> str:
        """Series and number: `AGN-004`."""
        return say_id(self.tla, self.number)

    @property
    def file_name(self) -> str:
        """What its file is called when it is made."""
        return make_file_name(self.tla, self.number, self.title)

    def render(self) -> str:
        """The text of its file."""
        own = (self.title, self.status.value, self.domain, self.owner, ", ".join(self.tags))
        lines = [*zip(_OWN, own, strict=True), *self.further]
        header = "\n".join(f"**{name}:** {value}  " if value else f"**{name}:**  " for name, value in lines)
        body = f"\n{self.body}\n" if self.body else ""
        return f"### {self.id}\n{header}\n\n---\n{body}"


def blank_body() -> str:
    """The sections of a new document, to be filled."""
    return "\n\n".join(f"## {section}" for section in SECTIONS)


def check_title(title: str) -> str:
    """The title as it stands in the header; refuse one that says nothing."""
    settled = _one_line(title, "title")
    if not settled:
        raise InvalidRequest("A document needs a title.", param="title")
    return settled


def parse(text: str, file_name: str) -> DesignDocument:
    """Read a document. One that cannot be understood is refused with the code `damaged_document`."""
    try:
        return _parse(text, file_name)
    except InvalidRequest as error:
        raise InvalidRequest(f"'{file_name}' is damaged: {error.message}", code=DAMAGED) from None


def _parse(text: str, file_name: str) -> DesignDocument:
    named = split_file_name(file_name)
    if named is None:
        raise InvalidRequest("The file is not named as 'AGN-004 - Title.md' is.")
    tla, number, file_title = named
    lines = _BLANK_LINES.sub("", _unix_lines(text).removeprefix("\ufeff")).split("\n")
    heading_title = _take_heading(lines, say_id(tla, number))
    header, body = _split_header(lines)
    own = {name.lower(): value for name, value in header if name.lower() in _OWN_KEYS}
    further = tuple((name, value) for name, value in header if name.lower() not in _OWN_KEYS)
    if len(own) + len(further) < len(header):
        raise InvalidRequest("A line of its header is there twice.")
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
    """Take the heading off, if there is one; the title in it, if there is one."""
    heading = _HEADING.fullmatch(lines[0])
    if heading is None:
        return ""
    found = say_id(heading[1], int(heading[2]))
    if found != document_id:
        raise InvalidRequest(f"Its name says {document_id}, but its heading says {found}.")
    del lines[0]
    return heading[3].strip().removeprefix("**").removesuffix("**").lstrip("—–:- \t").strip()


def _split_header(lines: list[str]) -> tuple[list[tuple[str, str]], str]:
    """The bold lines, and what comes after them or after the rule that ends them."""
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


def _settle_further(name: str, value: str) -> tuple[str, str]:
    settled = _one_line(name, "further")
    if not settled or ":" in settled or "*" in settled or settled.lower() in _OWN_KEYS:
        raise InvalidRequest(f"'{name}' cannot name a further line of the header.", param="further")
    return settled, _one_line(value, "further")


def _settle_body(text: str) -> str:
    return _BLANK_LINES.sub("", _unix_lines(_storable(text, "markdownBody"))).rstrip()


def _one_line(text: str, param: str) -> str:
    settled = _storable(text, param).strip()
    if "\n" in settled or "\r" in settled:
        raise InvalidRequest(f"The {param} of a document must be one line.", param=param)
    return settled


def _storable(text: str, param: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"The {param} of a document must be valid Unicode text.", param=param) from None
    return text


def _unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
