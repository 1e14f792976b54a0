"""What the library deals in: files as they are, and what shall become of them."""

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
    """Where it is, as seen from the current folder."""
    text: str = ""
    """What is in it."""
    document: DesignDocument | None = None
    """None if it is damaged."""
    note: str = ""
    """What is wrong with it."""

    def understood(self) -> DesignDocument:
        """The document; one that is damaged is refused."""
        if self.document is None:
            raise InvalidRequest(f"{self.note} Mend the file {self.path} first.", param="id", code=DAMAGED)
        return self.document


class Draft(Struct, frozen=True, kw_only=True):
    """What a document shall say. None: what it says already; in a new one, nothing."""

    title: str | None = None
    status: Status | None = None
    domain: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] | None = None
    body: str | None = None

    def over(self, document: DesignDocument) -> DesignDocument:
        """The document with this in it."""
        return msgspec.structs.replace(document, **self._said())

    def or_else(self, other: "Draft") -> "Draft":
        """This, and the other one where this says nothing."""
        return msgspec.structs.replace(other, **self._said())

    def _said(self) -> dict[str, object]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class Change(Struct, frozen=True, kw_only=True):
    """A change that can be looked at before it is made."""

    entry: Entry
    """The file as it was when the change was thought out."""
    document: DesignDocument
    text: str
    """What the file will hold."""
    diff: str
    """Unified; empty if nothing changes."""
