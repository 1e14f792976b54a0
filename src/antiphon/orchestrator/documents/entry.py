"""The values of the library: a file as it is, a draft, and a change."""

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.documents.document import DAMAGED, DesignDocument
from antiphon.orchestrator.documents.status import Status


class Entry(Struct, frozen=True, kw_only=True):
    """A file of the library."""

    id: str
    name: str
    path: str
    """Relative to the current folder, if it is below it."""
    text: str = ""
    document: DesignDocument | None = None
    """None: it is damaged."""
    note: str = ""
    """The reason why it is damaged."""

    def parsed(self) -> DesignDocument:
        """The document. Raises `InvalidRequest` if it is damaged."""
        if self.document is None:
            raise InvalidRequest(f"{self.note} Repair the file {self.path} first.", param="id", code=DAMAGED)
        return self.document


class Draft(Struct, frozen=True, kw_only=True):
    """New values of a document. None: unchanged; in a new document, empty."""

    title: str | None = None
    status: Status | None = None
    domain: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] | None = None
    body: str | None = None

    def over(self, document: DesignDocument) -> DesignDocument:
        """The document with these values."""
        return msgspec.structs.replace(document, **self._given())

    def or_else(self, other: "Draft") -> "Draft":
        """This draft, completed with the values of another one."""
        return msgspec.structs.replace(other, **self._given())

    def _given(self) -> dict[str, object]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class Change(Struct, frozen=True, kw_only=True):
    """A change that can be reviewed before it is applied."""

    entry: Entry
    """The file on which the change is based."""
    document: DesignDocument
    text: str
    """The new contents of the file."""
    diff: str
    """A unified diff; empty: nothing changes."""
