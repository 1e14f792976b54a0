"""Vector stores: created, listed, changed, deleted, and moved to another embedding model."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from antiphon.caller import Caller
from antiphon.errors import ModelNotFound, Unsupported
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.vector_stores import NewStore, NewStoreFile, StoreChange
from antiphon.service.embeddings import AUTO, Embeddings
from antiphon.service.vector_stores.files import StoreFiles
from antiphon.service.vector_stores.passages import PassageSearch
from antiphon.store.base import Page
from antiphon.store.vector_stores import StoreQuota, VectorStore, VectorStoreChange, VectorStores


@dataclass(frozen=True, slots=True)
class VectorStoreService:
    """The operations on vector stores. Each store has one embedding model, for all its vectors."""

    store: VectorStores
    files: StoreFiles
    search: PassageSearch
    embeddings: Embeddings
    ids: IdSource
    clock: Clock
    quota: StoreQuota

    async def create(self, caller: Caller, new: NewStore) -> VectorStore:
        """A store, with its first files."""
        now = int(self.clock())
        store = VectorStore(
            id=self.ids.new("vs"),
            name=new.name or "",
            created_at=now,
            last_active_at=now,
            model=self._model(AUTO),
            description=new.description,
            expires_after_days=None if new.expires_after is None else new.expires_after.days,
            metadata=new.metadata or {},
        )
        wanted = [
            NewStoreFile(file_id=file_id, chunking_strategy=new.chunking_strategy)
            for file_id in dict.fromkeys(new.file_ids or ())
        ]
        files = await self.files.new_files(caller, store.id, wanted, "file_ids[{}]")
        await self.store.add_store(caller.tenant, store, files, self.quota)
        if not files:
            return store
        await self.files.ingestion.start(caller.tenant, files)
        return await self.store.store(caller.tenant, store.id)

    async def retrieve(self, caller: Caller, store_id: str) -> VectorStore:
        """One store."""
        return await self.store.store(caller.tenant, store_id)

    async def list(self, caller: Caller, page: Page) -> tuple[Sequence[VectorStore], bool]:
        """A part of the list of stores, and whether more follows."""
        return await self.store.list_stores(caller.tenant, page)

    async def change(self, caller: Caller, store_id: str, change: StoreChange) -> VectorStore:
        """Change name, expiry or metadata."""
        expiry = change.expires_after
        return await self.store.change_store(
            caller.tenant,
            store_id,
            VectorStoreChange(
                name=UNSET if isinstance(change.name, UnsetType) else change.name or "",
                expires_after_days=expiry if isinstance(expiry, UnsetType | None) else expiry.days,
                metadata=UNSET if isinstance(change.metadata, UnsetType) else change.metadata or {},
            ),
        )

    async def delete(self, caller: Caller, store_id: str) -> None:
        """Delete a store; the files stay."""
        await self.store.delete_store(caller.tenant, store_id)
        self.files.ingestion.stop()

    async def reindex(self, caller: Caller, store_id: str, model: str = AUTO) -> VectorStore:
        """Add all files anew, with the vectors of this embedding model."""
        await self.store.begin_reindex(caller.tenant, store_id, self._model(model))
        await self.files.ingestion.start_unfinished(caller.tenant, store_id)
        return await self.store.store(caller.tenant, store_id)

    def _model(self, name: str) -> str:
        try:
            return self.embeddings.find(name).model
        except ModelNotFound as error:
            raise Unsupported(error.message, param="model", code="model_not_found") from None
