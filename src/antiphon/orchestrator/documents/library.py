"""The folder of the design documents. A number is given once, and nothing is overwritten unseen."""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

import msgspec

from antiphon.errors import AntiphonError, InvalidRequest, NotFound
from antiphon.orchestrator.documents.document import DesignDocument, blank_body, parse
from antiphon.orchestrator.documents.entry import Change, Draft, Entry
from antiphon.orchestrator.documents.files import check_size, create_file, locate, read_inside, replace_file
from antiphon.orchestrator.documents.naming import (
    check_letters,
    read_id,
    say_id,
    split_file_name,
    taken_number,
)
from antiphon.orchestrator.documents.search import Hit, search_documents
from antiphon.orchestrator.documents.status import FIRST, check_change, check_first

USUAL_SERIES = "DDR"
"""The series of the first document, if nobody names one."""

_ATTEMPTS = 1000


class Library:
    """The documents of one folder, which need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list(self) -> list[Entry]:
        """All documents by id, damaged ones with a note. Other files are not looked at."""
        named = sorted(self._documents())
        uses = Counter(number for number, _ in named)
        return [self._read(number, name, shared=uses[number] > 1) for number, name in named]

    def find(self, document_id: str) -> Entry:
        """One document; `agn-4` is `AGN-004`."""
        wanted = read_id(document_id)
        names = sorted(name for number, name in self._documents() if number == wanted)
        if not names:
            raise NotFound(f"There is no document {say_id(*wanted)} in {self.folder}.", param="id")
        if len(names) > 1:
            raise InvalidRequest(
                f"Several files are {say_id(*wanted)}: {', '.join(names)}. Give all but one a new number.",
                param="id",
                code="ambiguous_id",
            )
        return self._read(wanted, names[0], shared=False)

    def next_number(self, tla: str) -> int:
        """One more than the highest. A number that was left out or given up is not used again."""
        check_letters(tla)
        return 1 + max((taken_number(name, tla) for name in self._names()), default=0)

    def usual_series(self) -> str:
        """The series of most documents."""
        series = Counter(tla for (tla, _), _ in self._documents())
        return min(series, key=lambda tla: (-series[tla], tla), default=USUAL_SERIES)

    def compose(self, tla: str, draft: Draft) -> DesignDocument:
        """The new document of a series as it would be made now; without a body, with empty sections."""
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
        for number in range(first.number, first.number + _ATTEMPTS):
            document = msgspec.structs.replace(first, number=number)
            if self._create(document):
                return self.find(document.id)
        raise InvalidRequest(f"No number of {tla} is free: delete the files '.{tla}-*.new'.", param="id")

    def refine(self, document_id: str, draft: Draft) -> Change:
        """Think a change out. Nothing is written."""
        return self.revise(self.find(document_id), draft)

    def revise(self, entry: Entry, draft: Draft) -> Change:
        """The same for a document that was found before; `apply` sees to it that it is still the same."""
        before = entry.understood()
        after = draft.over(before)
        check_change(before.status, after.status)
        text = after.render()
        if "\r\n" in entry.text:
            text = text.replace("\n", "\r\n")
        check_size(text.encode(), entry.name)
        return Change(entry=entry, document=after, text=text, diff=_diff(entry, text))

    def apply(self, change: Change) -> Entry:
        """Make the change, unless somebody else has changed the file since it was thought out."""
        name, document_id = change.entry.name, change.entry.id
        target = locate(self.folder, name)

        def check() -> None:
            if read_inside(self.folder, name) != change.entry.text.encode():
                raise InvalidRequest(
                    f"{document_id} was changed by somebody else meanwhile. Look at it and try again.",
                    param="id",
                    code="document_changed",
                )

        if change.diff:
            replace_file(target.with_name(f".{document_id}.new"), target, change.text.encode(), check)
        return self.find(document_id)

    def search(self, query: str, limit: int = 10) -> Sequence[Hit]:
        """The documents that fit best, each once, best first."""
        return search_documents(self.list(), query, limit)

    def _names(self) -> Iterator[str]:
        if self.folder.exists():
            yield from (path.name for path in self.folder.iterdir())

    def _documents(self) -> Iterator[tuple[tuple[str, int], str]]:
        """Number and name of every file that is named as a document."""
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
            note = f"Another file is {say_id(*number)}, too."
        path = _from_here(self.folder / name).as_posix()
        return Entry(id=say_id(*number), name=name, path=path, text=text, document=document, note=note)

    def _create(self, document: DesignDocument) -> bool:
        data = check_size(document.render().encode(), document.file_name)
        claim = self.folder / f".{document.id}.new"
        return create_file(claim, self.folder / document.file_name, data, lambda: self._is_free(document))

    def _is_free(self, document: DesignDocument) -> bool:
        return all(taken_number(name, document.tla) != document.number for name in self._names())


def _diff(entry: Entry, text: str) -> str:
    before, after = (whole.removesuffix("\n").split("\n") for whole in (entry.text, text))
    return "\n".join(unified_diff(before, after, f"a/{entry.name}", f"b/{entry.name}", lineterm=""))


def _from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
