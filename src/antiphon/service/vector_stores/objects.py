"""The wire forms of vector stores, their files and batches, and of what a search finds."""

from typing import Literal

from antiphon.protocol.vector_stores import (
    FileBatchObject,
    FoundText,
    SearchResult,
    SearchScores,
    StaticChunking,
    StoreExpiry,
    StoreFileObject,
    VectorStoreObject,
)
from antiphon.service.vector_stores.passages import Passage
from antiphon.store.vector_stores import FileBatch, VectorStore, VectorStoreFile

DAY_SECONDS = 24 * 3600
SCORE_DIGITS = 4


def store_object(store: VectorStore) -> VectorStoreObject:
    """A store; it is in progress while one of its files is."""
    days = store.expires_after_days
    status: Literal["expired", "in_progress", "completed"] = (
        "in_progress" if store.file_counts.in_progress else "completed"
    )
    return VectorStoreObject(
        id=store.id,
        created_at=store.created_at,
        name=store.name or None,
        description=store.description,
        usage_bytes=store.usage_bytes,
        file_counts=store.file_counts,
        status="expired" if store.is_expired else status,
        expires_after=None if days is None else StoreExpiry("last_active_at", days),
        expires_at=None if days is None else store.last_active_at + days * DAY_SECONDS,
        last_active_at=store.last_active_at,
        metadata=store.metadata,
    )


def store_file_object(file: VectorStoreFile) -> StoreFileObject:
    """A file of a store. One that waits for something shows why in `last_error`."""
    return StoreFileObject(
        id=file.id,
        usage_bytes=file.usage_bytes,
        created_at=file.created_at,
        vector_store_id=file.store_id,
        status=file.status,
        last_error=file.error,
        chunking_strategy=StaticChunking(file.chunking),
        attributes=dict(file.attributes),
    )


def batch_object(batch: FileBatch) -> FileBatchObject:
    """A batch. It has failed if none of its files could be added."""
    counts = batch.file_counts
    status: Literal["in_progress", "completed", "cancelled", "failed"] = "completed"
    if batch.is_cancelled:
        status = "cancelled"
    elif counts.in_progress:
        status = "in_progress"
    elif counts.failed and counts.failed == counts.total:
        status = "failed"
    return FileBatchObject(
        id=batch.id,
        created_at=batch.created_at,
        vector_store_id=batch.store_id,
        status=status,
        file_counts=counts,
    )


def search_result(passage: Passage) -> SearchResult:
    """A passage that a search found."""
    return SearchResult(
        file_id=passage.file_id,
        filename=passage.filename,
        score=round(passage.score, SCORE_DIGITS),
        scores=SearchScores(
            text=round(passage.text_score, SCORE_DIGITS),
            vector=round(passage.vector_score, SCORE_DIGITS),
            mixed=round(passage.score, SCORE_DIGITS),
        ),
        attributes=dict(passage.attributes),
        content=[FoundText(text=passage.text)],
    )
