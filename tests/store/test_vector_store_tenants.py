"""Tenants: the vector stores of another tenant are as unknown as missing ones."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from antiphon.errors import AntiphonError
from antiphon.protocol.vector_stores import FileCounts
from antiphon.store.base import Page
from antiphon.store.ports import Stores
from antiphon.store.vector_stores import CandidateQuery, VectorStoreChange
from tests.store.vector_values import QUOTA, a_batch, a_chunk, a_file, a_store, complete, search

CALLS: dict[str, Callable[[Stores, str], Awaitable[object]]] = {
    "store": lambda store, known: store.vector_stores.store("b", f"vs_{known}"),
    "change": lambda store, known: store.vector_stores.change_store("b", f"vs_{known}", VectorStoreChange()),
    "use": lambda store, known: store.vector_stores.use_store("b", f"vs_{known}"),
    "delete": lambda store, known: store.vector_stores.delete_store("b", f"vs_{known}"),
    "add_files": lambda store, known: store.vector_stores.add_files(
        "b", [replace(a_file(7), store_id=f"vs_{known}")], QUOTA
    ),
    "store_file": lambda store, known: store.vector_stores.store_file("b", f"vs_{known}", "file-0001"),
    "list_files": lambda store, known: store.vector_stores.list_files("b", f"vs_{known}", Page()),
    "set_attributes": lambda store, known: store.vector_stores.set_attributes(
        "b", f"vs_{known}", "file-0001", {}
    ),
    "delete_file": lambda store, known: store.vector_stores.delete_file("b", f"vs_{known}", "file-0001"),
    "batch": lambda store, known: store.vector_stores.batch("b", f"vs_{known}", "vsfb_1"),
    "cancel_batch": lambda store, known: store.vector_stores.cancel_batch("b", f"vs_{known}", "vsfb_1"),
    "chunks": lambda store, known: store.vector_stores.chunks("b", f"vs_{known}", [("file-0001", 0)]),
    "content": lambda store, known: store.vector_stores.content("b", f"vs_{known}", "file-0001", 0, 1),
    "candidates": lambda store, known: store.vector_stores.candidates(
        "b", f"vs_{known}", CandidateQuery(terms=["text"])
    ),
    "reindex": lambda store, known: store.vector_stores.begin_reindex("b", f"vs_{known}", "m"),
}


async def outcome(store: Stores, call: str, name: str) -> str:
    try:
        return repr(await CALLS[call](store, name)).replace(name, "…")
    except AntiphonError as error:
        return f"{type(error)} {error.to_wire()}".replace(name, "…")


@pytest.mark.parametrize("call", CALLS)
async def test_foreign_stores_are_the_same_as_unknown_ones(store: Stores, call: str) -> None:
    await store.vector_stores.add_store("a", a_store(1), [], QUOTA)
    await store.vector_stores.add_files("a", [a_file(1, batch="vsfb_1")], QUOTA, a_batch())
    await complete(store, a_file(1), [a_chunk(0, "text")], "a")
    assert "NotFound" in await outcome(store, call, "1")
    assert await outcome(store, call, "1") == await outcome(store, call, "2")
    assert (await store.vector_stores.store("a", "vs_1")).file_counts == FileCounts(completed=1, total=1)
    assert len(await search(store, "text", "a")) == 1
