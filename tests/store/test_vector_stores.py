"""Vector stores: rows, files and their jobs, batches, expiry and upkeep."""

from antiphon.store.ports import Stores
from tests.store.vector_values import (
    QUOTA,
    a_chunk,
    a_file,
    a_store,
    angle,
    complete,
    ingest,
    places,
    search,
)


async def test_files_are_added_and_found(store: Stores) -> None:
    stores = store.vector_stores
    await stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    assert (await stores.store("t", "vs_1")).file_counts.in_progress == 1
    await complete(store, a_file(1), [a_chunk(0, "the cat sat", 0), a_chunk(1, "dog dog ran", 90)])
    await ingest(store, a_file(2), [a_chunk(0, "cat cat cat", 45)])
    found = await stores.store("t", "vs_1")
    assert (found.file_counts.completed, found.file_counts.total, found.dimensions) == (2, 2, 2)
    assert places(await search(store, "cat")) == [("file-0002", 0), ("file-0001", 0)]
    assert places(await search(store, vector=angle(80))) == [
        ("file-0001", 1),
        ("file-0002", 0),
        ("file-0001", 0),
    ]
