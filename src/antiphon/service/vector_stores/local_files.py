"""Files of this machine in a vector store: only those that are new or have changed are stored.

The attribute `path` marks the files of a store that were added from here, and says which one it is. A file
whose content has changed is a new file of the same path; the version before stays until that is completed.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.attribute_filters import Attribute
from antiphon.protocol.vector_stores import MAX_ATTRIBUTES, NewStoreFile
from antiphon.service.files.files import Files
from antiphon.service.files.local_file import Advance, LocalFile
from antiphon.service.vector_stores.stores import VectorStoreService
from antiphon.store.base import Page
from antiphon.store.vector_stores import VectorStoreFile

PATH_ATTRIBUTE = "path"
PURPOSE = "assistants"
MAX_PATH_CHARACTERS = 512
LIST_PAGE_FILES = 100
CONCURRENT_LOOKUPS = 32

Change = Literal["added", "resumed", "unchanged"]
"""Resumed: it was sent before, and is still in progress."""


class LocalSource(NamedTuple):
    """A file of this machine, and its path in the store."""

    path: str
    place: Path


class Version(NamedTuple):
    """A file of a store that was added from this machine, with the SHA-256 of its content."""

    file: VectorStoreFile
    hash: str

    @property
    def path(self) -> str:
        """The file of this machine that it was."""
        return str(self.file.attributes[PATH_ATTRIBUTE])


class Kept(NamedTuple):
    """A file of this machine that is in the store now, and what was done. Unless it is unchanged, it is in
    progress."""

    file_id: str
    change: Change
    outdated: Sequence[str]
    """The files of the store with earlier versions."""


Versions = Mapping[str, Sequence[Version]]
"""By path."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Adds files of this machine to vector stores, and removes them."""

    files: Files
    stores: VectorStoreService

    async def versions(self, caller: Caller, store_id: str) -> Versions:
        """What a store has from this machine."""
        found: dict[str, list[Version]] = {}
        page, has_more = Page(limit=LIST_PAGE_FILES), True
        while has_more:
            listed, has_more = await self.stores.files.list(caller, store_id, page)
            page = Page(limit=LIST_PAGE_FILES, after=listed[-1].id if listed else None)
            marked = [file for file in listed if PATH_ATTRIBUTE in file.attributes]
            for start in range(0, len(marked), CONCURRENT_LOOKUPS):
                some = marked[start : start + CONCURRENT_LOOKUPS]
                for version in await asyncio.gather(*(self._version(caller, file) for file in some)):
                    found.setdefault(version.path, []).append(version)
        return found

    async def _version(self, caller: Caller, file: VectorStoreFile) -> Version:
        try:
            return Version(file, (await self.files.retrieve(caller, file.id)).hash)
        except NotFound:  # it has expired, and is removed from the store later
            return Version(file, "")

    async def keep(
        self,
        caller: Caller,
        store_id: str,
        source: LocalSource,
        known: Sequence[Version],
        *,
        attributes: Mapping[str, Attribute] | None = None,
        advance: Advance = lambda _size: None,
    ) -> Kept:
        """Have a file in the store. `known` are the versions of this path that it has.

        A version with the same content is not sent again; if it has failed, it is added anew.
        """
        wanted = _attributes(source.path, attributes or {})
        digest = await asyncio.to_thread(_sha256, source.place)
        current = next((version.file for version in known if version.hash == digest), None)
        outdated = [version.file.id for version in known if version.file is not current]
        if current is None:
            added = await self._store(
                caller, store_id, LocalFile(source.place, PURPOSE, None, advance), wanted
            )
            return Kept(added, "added", outdated)
        if current.status in ("failed", "cancelled"):
            new = NewStoreFile(file_id=current.id, attributes=wanted)
            await self.stores.files.add(caller, store_id, new)
            return Kept(current.id, "added", outdated)
        if attributes is not None and dict(current.attributes) != wanted:
            await self.stores.files.set_attributes(caller, store_id, current.id, wanted)
        change = "resumed" if current.status == "in_progress" else "unchanged"
        return Kept(current.id, change, outdated)

    async def remove(self, caller: Caller, store_id: str, file_ids: Sequence[str]) -> None:
        """Remove files from a store, and delete them."""
        for file_id in file_ids:
            with suppress(NotFound):
                await self.stores.files.delete(caller, store_id, file_id)
            with suppress(NotFound):
                await self.files.delete(caller, file_id)

    async def _store(
        self, caller: Caller, store_id: str, incoming: LocalFile, attributes: dict[str, Attribute]
    ) -> str:
        stored = await self.files.create(caller, incoming)
        try:
            await self.stores.files.add(
                caller, store_id, NewStoreFile(file_id=stored.id, attributes=attributes)
            )
        except BaseException:  # nothing refers to the file, and the next attempt stores another one
            await self.remove(caller, store_id, [stored.id])
            raise
        return stored.id


def _attributes(path: str, others: Mapping[str, Attribute]) -> dict[str, Attribute]:
    if len(path) > MAX_PATH_CHARACTERS:
        message = f"The path has more than {MAX_PATH_CHARACTERS} characters."
        raise InvalidRequest(message, param="path", code="invalid_filename")
    if len(others) >= MAX_ATTRIBUTES:
        message = f"A file has at most {MAX_ATTRIBUTES} attributes; one of them is '{PATH_ATTRIBUTE}'."
        raise InvalidRequest(message, param="attributes", code="object_above_max_properties")
    return {**others, PATH_ATTRIBUTE: path}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
