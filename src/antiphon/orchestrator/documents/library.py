"""The folder of the design documents. Numbers are used once, and concurrent changes are never overwritten."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from difflib import unified_diff
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, InvalidRequest, NotFound
from antiphon.orchestrator.documents.document import DesignDocument, blank_body, parse
from antiphon.orchestrator.documents.entry import Change, Draft, Entry
from antiphon.orchestrator.documents.files import check_size, create_file, locate, read_inside, replace_file
from antiphon.orchestrator.documents.naming import (
    check_letters,
    format_id,
    read_id,
    split_file_name,
    taken_number,
)
from antiphon.orchestrator.documents.status import FIRST, check_change, check_first
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.chunking import cut
from antiphon.retrieval.index import ChunkIndex
from antiphon.retrieval.scope import Scope

USUAL_SERIES = "DDR"
"""The series of the first document, if none is given."""

_MAX_CREATE_ATTEMPTS = 1000


class Hit(Struct, frozen=True, kw_only=True):
    """A search result: a document and its best section."""

    entry: Entry
    section: str
    excerpt: str


class Library:
    """The documents of one folder, which may not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list(self) -> list[Entry]:
        """All documents by id, damaged ones with a note. Other files are ignored."""
        named = sorted(self._documents())
        uses = Counter(number for number, _ in named)
        return [self._read(number, name, shared=uses[number] > 1) for number, name in named]

    def find(self, document_id: str) -> Entry:
        """One document; `agn-4` is `AGN-004`."""
        wanted = read_id(document_id)
        names = sorted(name for number, name in self._documents() if number == wanted)
        if not names:
            raise NotFound(f"There is no document {format_id(*wanted)} in {self.folder}.", param="id")
        if len(names) > 1:
            raise InvalidRequest(
                f"Several files have the id {format_id(*wanted)}: {', '.join(names)}. Renumber all but one.",
                param="id",
                code="ambiguous_id",
            )
        return self._read(wanted, names[0], shared=False)

    def next_number(self, tla: str) -> int:
        """One more than the highest. Gaps are not filled."""
        check_letters(tla)
        return 1 + max((taken_number(name, tla) for name in self._names()), default=0)

    def usual_series(self) -> str:
        """The series of most documents."""
        series = Counter(tla for (tla, _), _ in self._documents())
        return min(series, key=lambda tla: (-series[tla], tla), default=USUAL_SERIES)

    def compose(self, tla: str, draft: Draft) -> DesignDocument:
        """A new document of a series, not written yet; without a body, it has empty sections."""
        check_first(draft.status or FIRST)
        body = draft.body if draft.body and draft.body.strip() else blank_body()
        return DesignDocument(
            tla=tla,
            number=self.next_number(tla),
            title=draft.title or "",
            domain=draft.domain or "",
            owner=draft.owner or "",
            tags=draft.tags or (),
            body=body,
        )

    def create(self, tla: str, draft: Draft) -> Entry:
        """Make a new document. Processes that do this at once get different numbers."""
        first = self.compose(tla, draft)
        self.folder.mkdir(parents=True, exist_ok=True)
        for number in range(first.number, first.number + _MAX_CREATE_ATTEMPTS):
            document = msgspec.structs.replace(first, number=number)
            if self._create(document):
                return self.find(document.id)
        raise InvalidRequest(f"No number of {tla} is free: delete the files '.{tla}-*.new'.", param="id")

    def refine(self, document_id: str, draft: Draft) -> Change:
        """Prepare a change, without writing it."""
        return self.revise(self.find(document_id), draft)

    def revise(self, entry: Entry, draft: Draft) -> Change:
        """The same for an entry; `apply` checks that the file is still the same."""
        before = entry.parsed()
        after = draft.over(before)
        check_change(before.status, after.status)
        text = after.render()
        if "\r\n" in entry.text:
            text = text.replace("\n", "\r\n")
        check_size(text.encode(), entry.name)
        return Change(entry=entry, document=after, text=text, diff=_diff(entry, text))

    def apply(self, change: Change) -> Entry:
        """Apply a change, unless the file has changed since it was prepared."""
        name, document_id = change.entry.name, change.entry.id
        target = locate(self.folder, name)

        def check() -> None:
            if read_inside(self.folder, name) != change.entry.text.encode():
                raise InvalidRequest(
                    f"{document_id} was changed by another process in the meantime. Review it and try again.",
                    param="id",
                    code="document_changed",
                )

        if change.diff:
            replace_file(target.with_name(f".{document_id}.new"), target, change.text.encode(), check)
        return self.find(document_id)

    def search(self, query: str, limit: int = 10) -> Sequence[Hit]:
        """The best matching documents, each once, best first."""
        return search_documents(self.list(), query, limit)

    def _names(self) -> Iterator[str]:
        if self.folder.exists():
            yield from (path.name for path in self.folder.iterdir())

    def _documents(self) -> Iterator[tuple[tuple[str, int], str]]:
        """Number and name of every file with the name of a document."""
        for name in self._names():
            named = split_file_name(name)
            if named is not None:
                yield named[:2], name

    def _read(self, number: tuple[str, int], name: str, *, shared: bool) -> Entry:
        text, document, note = "", None, ""
        try:
            text = read_inside(self.folder, name).decode()
            document = parse(text, name)
        except UnicodeDecodeError:
            note = f"'{name}' is not UTF-8 text."
        except OSError as error:
            note = f"'{name}' cannot be read: {error.strerror}."
        except AntiphonError as error:
            note = error.message
        if shared and not note:
            note = f"Another file has the id {format_id(*number)} too."
        path = _from_here(self.folder / name).as_posix()
        return Entry(id=format_id(*number), name=name, path=path, text=text, document=document, note=note)

    def _create(self, document: DesignDocument) -> bool:
        data = check_size(document.render().encode(), document.file_name)
        lock = self.folder / f".{document.id}.new"
        return create_file(lock, self.folder / document.file_name, data, lambda: self._is_free(document))

    def _is_free(self, document: DesignDocument) -> bool:
        return all(taken_number(name, document.tla) != document.number for name in self._names())


def _diff(entry: Entry, text: str) -> str:
    before, after = (version.removesuffix("\n").split("\n") for version in (entry.text, text))
    return "\n".join(unified_diff(before, after, f"a/{entry.name}", f"b/{entry.name}", lineterm=""))


def _from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def search_documents(entries: Sequence[Entry], query: str, limit: int) -> list[Hit]:
    """The best matching documents, each once, best first."""
    by_name = {entry.name: entry for entry in entries}
    files = [(entry.name, cut(entry.name, entry.text)) for entry in entries]
    with closing(ChunkIndex()) as index:
        index.replace(files)
        chunks = index.search(query, Scope(), sum(len(chunks) for _, chunks in files))
    hits: dict[str, Hit] = {}
    for chunk in chunks:
        entry = by_name[chunk.path]
        hits.setdefault(entry.name, Hit(entry=entry, section=_section(entry, chunk), excerpt=chunk.text))
    return list(hits.values())[:limit]


def _section(entry: Entry, chunk: RagChunk) -> str:
    """The headings above the chunk, without the document's own and without asterisks."""
    headings = [heading.strip("* ") for heading in chunk.symbol.split(" > ")]
    return " > ".join(heading for heading in headings if not heading.startswith(entry.id))
