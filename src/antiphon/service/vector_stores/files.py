"""Files of vector stores: added one by one or in batches, listed, changed and removed."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.attribute_filters import Attribute
from antiphon.protocol.ids import FILE_ID, Clock, IdSource
from antiphon.protocol.vector_stores import FileStatus, NewBatch, NewStoreFile
from antiphon.service.vector_stores.ingestion import Ingestion
from antiphon.store.base import Page
from antiphon.store.files import FileStore
from antiphon.store.vector_stores import FileBatch, FoundChunk, StoreQuota, VectorStoreFile, VectorStores

CONCURRENT_LOOKUPS = 32
CONTENT_PAGE_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The operations on the files and batches of vector stores."""

    store: VectorStores
    file_store: FileStore
    ingestion: Ingestion
    ids: IdSource
    clock: Clock
    quota: StoreQuota

    async def add(self, caller: Caller, store_id: str, new: NewStoreFile) -> VectorStoreFile:
        """Add one file. A file that the store has already is added anew."""
        [file] = files = await self.new_files(caller, store_id, [new], "file_id")
        await self.store.add_files(caller.tenant, files, self.quota)
        await self.ingestion.start(caller.tenant, files)
        return file

    async def add_batch(self, caller: Caller, store_id: str, new: NewBatch) -> FileBatch:
        """Add many files. If one of them does not exist, none is added."""
        batch = FileBatch(id=self.ids.new("vsfb"), store_id=store_id, created_at=int(self.clock()))
        files = await self.new_files(caller, store_id, new.files, new.param, batch.id)
        await self.store.add_files(caller.tenant, files, self.quota, batch)
        await self.ingestion.start(caller.tenant, files)
        return await self.store.batch(caller.tenant, store_id, batch.id)

    async def new_files(
        self,
        caller: Caller,
        store_id: str,
        wanted: Sequence[NewStoreFile],
        param: str,
        batch: str | None = None,
    ) -> list[VectorStoreFile]:
        """The rows of files to add. Errors name `param`, with the place of the file filled in."""
        now = int(self.clock())

        async def row(place: int) -> VectorStoreFile:
            new = wanted[place]
            return VectorStoreFile(
                id=new.file_id,
                store_id=store_id,
                filename=await self._filename(caller, new.file_id, param.format(place)),
                created_at=now,
                chunking=new.chunking.static,
                attributes=new.attributes or {},
                batch=batch,
            )

        rows: list[VectorStoreFile] = []
        for start in range(0, len(wanted), CONCURRENT_LOOKUPS):
            places = range(start, min(start + CONCURRENT_LOOKUPS, len(wanted)))
            rows += await asyncio.gather(*map(row, places))
        return rows

    async def _filename(self, caller: Caller, file_id: str, param: str) -> str:
        FILE_ID._replace(param=param).check(file_id)
        try:
            return (await self.file_store.file(caller.tenant, file_id)).filename
        except NotFound as error:
            raise NotFound(error.message, param=param, code=error.code) from None

    async def list(
        self,
        caller: Caller,
        store_id: str,
        page: Page,
        *,
        status: FileStatus | None = None,
        batch: str | None = None,
    ) -> tuple[Sequence[VectorStoreFile], bool]:
        """A part of the list of files, and whether more follows."""
        if batch is not None:
            await self.store.batch(caller.tenant, store_id, batch)
        return await self.store.list_files(caller.tenant, store_id, page, status=status, batch=batch)

    async def retrieve(self, caller: Caller, store_id: str, file_id: str) -> VectorStoreFile:
        """One file of a store."""
        return await self.store.store_file(caller.tenant, store_id, file_id)

    async def set_attributes(
        self, caller: Caller, store_id: str, file_id: str, attributes: Mapping[str, Attribute]
    ) -> VectorStoreFile:
        """Replace the attributes of a file."""
        return await self.store.set_attributes(caller.tenant, store_id, file_id, attributes)

    async def content(
        self, caller: Caller, store_id: str, file_id: str
    ) -> AsyncGenerator[Sequence[FoundChunk], None]:
        """The chunks of a completed file, in portions."""
        file = await self.store.store_file(caller.tenant, store_id, file_id)
        if file.status != "completed":
            message = f"File '{file_id}' is {file.status.replace('_', ' ')} in this vector store."
            raise InvalidRequest(
                f"{message} Only files that are completed have content.",
                param="file_id",
                code="invalid_value",
            )
        after = 0
        while portion := await self.store.content(
            caller.tenant, store_id, file_id, after, CONTENT_PAGE_CHUNKS
        ):
            yield portion
            after = portion[-1].ordinal + 1

    async def delete(self, caller: Caller, store_id: str, file_id: str) -> None:
        """Remove a file from a store; the file itself stays."""
        await self.store.delete_file(caller.tenant, store_id, file_id)
        self.ingestion.stop()

    async def batch(self, caller: Caller, store_id: str, batch_id: str) -> FileBatch:
        """One batch."""
        return await self.store.batch(caller.tenant, store_id, batch_id)

    async def cancel_batch(self, caller: Caller, store_id: str, batch_id: str) -> FileBatch:
        """Cancel the files of a batch that are in progress."""
        batch = await self.store.cancel_batch(caller.tenant, store_id, batch_id)
        self.ingestion.stop()
        return batch
