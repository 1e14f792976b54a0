"""Scripts that read chunks for results."""

from collections.abc import Sequence

import msgspec

from antiphon.store import vector_file_scripts, vector_store_scripts
from antiphon.store.chunk_scripts import SET_CHUNKS
from antiphon.store.database import Script, Statement
from antiphon.store.vector_stores import FoundChunk


def listed(
    tenant: str, store_id: str, wanted: Sequence[tuple[str, int]], now: int
) -> Script[list[FoundChunk]]:
    """Chunks of completed files by file and ordinal, in the order of `wanted`."""
    row = yield from vector_store_scripts.find(tenant, store_id, now)
    if row.store.is_expired or not wanted:
        return []
    ids = _json(list(dict.fromkeys(file_id for file_id, _ in wanted)))
    files = yield Statement("numbers_of_vector_files", (tenant, store_id, ids))
    numbers: dict[str, int] = {file_id: number for file_id, number in files}  # noqa: C416
    keys = [
        numbers[file_id] * SET_CHUNKS + ordinal
        for file_id, ordinal in wanted
        if file_id in numbers and 0 <= ordinal < SET_CHUNKS
    ]
    rows = yield Statement("listed_chunks", (tenant, store_id, row.chunk_set, _json(keys)))
    found = {(chunk[0], chunk[3]): chunk for chunk in rows}
    return [
        FoundChunk(
            file_id=file_id,
            filename=filename,
            attributes=msgspec.json.decode(attributes),
            ordinal=ordinal,
            text=text,
            label=label,
        )
        for key in dict.fromkeys(wanted)
        if key in found
        for file_id, filename, attributes, ordinal, text, label in [found[key]]
    ]


def content(
    tenant: str, store_id: str, file_id: str, after: int, limit: int, *, now: int
) -> Script[list[FoundChunk]]:
    """Chunks of a completed file with ordinals from `after` on."""
    row = yield from vector_store_scripts.find(tenant, store_id, now)
    found = yield from vector_file_scripts.find(tenant, store_id, file_id, now)
    if found.file.status != "completed":
        return []
    rows = yield Statement("chunks_of_file", (row.chunk_set, found.number, after, limit))
    return [
        FoundChunk(
            file_id=file_id,
            filename=found.file.filename,
            attributes=found.file.attributes,
            ordinal=ordinal,
            text=text,
            label=label,
        )
        for ordinal, text, label in rows
    ]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
