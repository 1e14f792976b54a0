"""One tenant computes few searches at the same time, however many it sends."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.store import vector_search
from antiphon.store.ports import Stores
from antiphon.store.vector_search import MAX_SEARCHES_AT_ONCE, CandidateSearch
from antiphon.store.vector_stores import Candidate
from tests.store.vector_values import QUOTA, a_chunk, a_file, a_store, ingest, search


async def test_further_searches_of_a_tenant_wait(store: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    searching, most, finish = Counter[str](), Counter[str](), asyncio.Event()
    original = CandidateSearch.__dict__["_search"]

    async def slow(self: CandidateSearch, key: Any, *rest: Any, **options: Any) -> Sequence[Candidate] | None:
        tenant = key[0]
        searching[tenant] += 1
        most[tenant] = max(most[tenant], searching[tenant])
        if searching.total() == MAX_SEARCHES_AT_ONCE + 1:
            finish.set()
        await asyncio.wait_for(finish.wait(), 10)
        searching[tenant] -= 1
        return await original(self, key, *rest, **options)

    for tenant in ("t", "other"):
        await store.vector_stores.add_store(tenant, a_store(), [], QUOTA)
        await ingest(store, a_file(1), [a_chunk(0, "word")], tenant)
    monkeypatch.setattr(vector_search.CandidateSearch, "_search", slow)
    many = [search(store, "word") for _ in range(3 * MAX_SEARCHES_AT_ONCE)]
    found = await asyncio.gather(*many, search(store, "word", "other"))
    assert [len(each) for each in found] == [1] * len(found)
    assert most == {"t": MAX_SEARCHES_AT_ONCE, "other": 1}
