"""A vector store that is kept in step with folders: new, changed and removed files, in the background."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.caller import Caller
from antiphon.errors import AntiphonError, RequestError
from antiphon.protocol.vector_stores import NewStore
from antiphon.retrieval.files import FileFinder, FoundFile, may_be_document
from antiphon.service.vector_stores.local_files import LocalFiles, LocalSource, Versions
from antiphon.store.base import Page
from antiphon.store.vector_stores import VectorStore

SCAN_INTERVAL_SECONDS = 2.0
LIST_PAGE_STORES = 100

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class FolderSync:
    """Keeps the store of this name, which it creates, in step with the files that `finder` finds.

    Files that were not added from these folders stay. Several processes may do this to one store: of two
    equal versions of a file, one is removed.
    """

    finder: FileFinder
    local: LocalFiles
    caller: Caller
    name: str
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when all files were added once, or have failed."""
    _store_id: str = ""
    _found: Mapping[str, FoundFile] = field(default_factory=dict[str, FoundFile])
    """The files as they were when the last scan began."""
    _seen: Mapping[str, FoundFile] = field(default_factory=dict[str, FoundFile])
    """The files as they were at the last scan that was completed."""
    _current: dict[str, str] = field(default_factory=dict[str, str])
    """By path: the file of the store with the present content."""
    _unsettled: bool = True
    """Whether files are in progress, or versions have to be removed."""

    async def run(self) -> None:
        """Scan the folders again and again."""
        while True:
            try:
                await self.scan()
            except RequestError as error:  # the store was deleted, or has expired
                logger.warning("the vector store '%s' is looked for again: %s", self.name, error.message)
                self._store_id, self._seen = "", {}
            except AntiphonError as error:
                logger.warning("the vector store '%s' is not up to date: %s", self.name, error.message)
            await asyncio.sleep(SCAN_INTERVAL_SECONDS)

    async def store_id(self) -> str:
        """The store; the oldest one, if there are several of this name."""
        if not self._store_id:
            self._store_id = (await self._find() or await self._create()).id
        return self._store_id

    def file_at(self, path: str) -> FoundFile | None:
        """The file of this path that the last scan has found in the folders; None: there is none."""
        return self._found.get(path)

    async def scan(self) -> None:
        """Compare the folders with the store once."""
        found = self._found = await asyncio.to_thread(self.finder.find)
        if found == self._seen and not self._unsettled:
            return
        store_id = await self.store_id()
        known = await self.local.versions(self.caller, store_id)
        for path in known.keys() - found.keys():
            await self._remove(known, path)
        for path, file in found.items():
            if self._seen.get(path) != file:
                await self._keep(file, known)
        self._seen = found
        await self._settle()

    async def _keep(self, file: FoundFile, known: Versions) -> None:
        if not await asyncio.to_thread(may_be_document, file.place):
            await self._remove(known, file.path)
            return
        source, versions = LocalSource(file.path, file.place), known.get(file.path, ())
        try:
            kept = await self.local.keep(self.caller, await self.store_id(), source, versions)
        except RequestError as error:
            logger.warning("%s is not added to '%s': %s", file.path, self.name, error.message)
        except OSError as error:
            logger.warning("%s cannot be read (%s).", file.path, error.strerror)
        else:
            self._current[file.path] = kept.file_id

    async def _settle(self) -> None:
        """Remove versions that completed ones have replaced."""
        store_id, unsettled = await self.store_id(), False
        for path, versions in (await self.local.versions(self.caller, store_id)).items():
            current = self._current.get(path)
            statuses = {version.file.id: version.file.status for version in versions}
            unsettled = unsettled or "in_progress" in statuses.values()
            if current is not None and statuses.get(current) == "completed":
                await self.local.remove(self.caller, store_id, [each for each in statuses if each != current])
        self._unsettled = unsettled
        if not unsettled:
            self.settled.set()

    async def _remove(self, known: Versions, path: str) -> None:
        self._current.pop(path, None)
        file_ids = [version.file.id for version in known.get(path, ())]
        await self.local.remove(self.caller, await self.store_id(), file_ids)

    async def _find(self) -> VectorStore | None:
        page, has_more = Page(limit=LIST_PAGE_STORES, order="asc"), True
        while has_more:
            stores, has_more = await self.local.stores.list(self.caller, page)
            for store in stores:
                if store.name == self.name and not store.is_expired:
                    return store
            page = Page(limit=LIST_PAGE_STORES, order="asc", after=stores[-1].id if stores else None)
        return None

    async def _create(self) -> VectorStore:
        return await self.local.stores.create(self.caller, NewStore(name=self.name))
