"""The search for candidates: words, vectors, filters, and indexes that follow the store."""

import math
import random
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import NotFound, Unavailable
from antiphon.protocol.attribute_filters import Attribute, Comparison, Compound, Filter, matcher
from antiphon.store import chunk_index, postgres_vectors, sqlite_vectors, vector_blocks, vector_search
from antiphon.store.chunk_index import ChunkIndex, SearchedFile
from antiphon.store.database import Script
from antiphon.store.ports import Stores
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from antiphon.store.sqlite import SqliteDatabase
from antiphon.store.vector_search import read_snapshot
from antiphon.store.vector_stores import CandidateQuery, Chunk
from tests.store.conftest import Clock, CountRows, Opened
from tests.store.vector_queries import (
    WORDS,
    check_random_queries,
    fill,
    with_bound,
)
from tests.store.vector_values import (
    QUOTA,
    a_chunk,
    a_file,
    a_store,
    angle,
    claim,
    ingest,
    places,
    search,
)

pytest.importorskip("numpy", reason="antiphon[retrieval] is missing")


@pytest.mark.requirement("VECTOR-STORES/search-databases")
@pytest.mark.parametrize("seed", range(3))
async def test_candidates_are_the_best_by_both_definitions(store: Stores, seed: int) -> None:
    """The same definition on every database, so their results agree."""
    source = random.Random(seed)
    await check_random_queries(store, await fill(store, source, 16), source)


async def test_a_store_that_is_larger_than_the_bound_is_read_in_blocks(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_blocks, "BLOCK_BYTES", 8 * 4 * 5)
    store, _ = with_bound(opened, clock, 100)
    source = random.Random(7)
    await check_random_queries(store, await fill(store, source, 16), source)


async def test_small_blocks_are_joined_and_cut(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change of the store takes over the vectors that are still needed."""
    monkeypatch.setattr(vector_blocks, "BLOCK_BYTES", 2 * 4 * 4)
    store = sql_stores(opened.database, LocalSignals(), clock)
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    source, present = random.Random(3), dict[int, int]()
    for number in range(1, 30):
        if present and source.random() < 0.3:
            gone = source.choice(list(present))
            await store.vector_stores.delete_file("t", "vs_1", a_file(gone).id)
            del present[gone]
        chunks = [a_chunk(place, f"w{number}", number * 5 + place) for place in range(source.randint(1, 6))]
        await ingest(store, a_file(number), chunks)
        present[number] = len(chunks)
        found = await search(store, f"w{number}", vector=angle(0))
        assert len(found) == sum(present.values())
        for each in found:
            where = int(each.file_id[-4:]) * 5 + each.ordinal
            assert each.similarity == pytest.approx(math.cos(math.radians(where)), abs=1e-5)


async def test_words_of_languages_without_spaces_are_terms_like_others(store: Stores) -> None:
    """The caller gives the terms, such as pairs of characters; they are kept as they are."""
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    texts = {
        "chinese": ["北京", "京大", "大学", "学生"],
        "japanese": ["東京", "京都", "カタ", "タカ", "ひら"],
        "thai": ["ภาษา", "ไทย", "สวัสดี"],
        "code": [
            "c++",
            "foo_bar",
            "a.b",
            "don't",
            "'",
            '"',
            ":",
            "*",
            "AND",
            "é",
            "É",
            "ß",
            "\0",
            "a b",
            "𝒳",
        ],
    }
    chunks = [
        Chunk(ordinal=place, text=name, terms=terms, vector=angle(place))
        for place, (name, terms) in enumerate(texts.items())
    ]
    await ingest(store, a_file(1), chunks)
    for place, terms in enumerate(texts.values()):
        for term in terms:
            query = CandidateQuery(terms=[term])
            found = await store.vector_stores.candidates("t", "vs_1", query)
            assert places(found) == [("file-0001", place)], term
    for absent in ("京", "C++", "foo", "a", "", "word*"):
        query = CandidateQuery(terms=[absent])
        assert await store.vector_stores.candidates("t", "vs_1", query) == [], absent


async def test_frequent_words_count_little_and_repetitions_do_not_count_without_end(store: Stores) -> None:
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    texts = ["common", "common rare", "common", "common " * 100, "common other"]
    await ingest(store, a_file(1), [a_chunk(place, text) for place, text in enumerate(texts)])
    found = await search(store, "common rare")
    assert found[0].ordinal == 1
    assert len(found) == 5
    assert all(each.lexical > 0 for each in found)


async def test_a_query_of_words_or_of_a_vector_alone(store: Stores) -> None:
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "one", 0), a_chunk(1, "two", 60), a_chunk(2, "two", 180)])
    words = await search(store, "two")
    assert sorted(places(words)) == [("file-0001", 1), ("file-0001", 2)]
    assert [each.similarity for each in words] == [0.0, 0.0]
    similar = await search(store, vector=angle(0), limit=2)
    assert places(similar) == [("file-0001", 0), ("file-0001", 1)]
    assert [each.lexical for each in similar] == [0.0, 0.0]
    both = await search(store, "two", vector=angle(180), limit=1)
    assert ("file-0001", 2) in places(both)
    assert await search(store, "") == []
    assert await search(store, "one two", limit=0, vector=angle(0)) == []


async def test_an_empty_store_and_one_without_vectors_find_nothing(store: Stores) -> None:
    await store.vector_stores.add_store("t", a_store(), [a_file(1)], QUOTA)
    assert await search(store, "word", vector=angle(0)) == []
    [job] = await claim(store)
    await store.vector_stores.end_file(job, None)
    assert await search(store, "word", vector=angle(0)) == []


async def test_a_vector_without_a_direction_is_similar_to_nothing(store: Stores) -> None:
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "a", bytes(8)), a_chunk(1, "b", 10)])
    found = await search(store, "a", vector=angle(0))
    assert {each.ordinal: round(each.similarity, 3) for each in found} == {0: 0.0, 1: 0.985}
    assert all(each.similarity == 0 for each in await search(store, "a", vector=bytes(8)))


async def test_changed_attributes_are_filtered_by(store: Stores) -> None:
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1, attributes={"kind": "a"}), [a_chunk(0, "text")])
    wanted = Comparison("eq", "kind", "b")
    assert await search(store, "text", filter=wanted, vector=angle(0)) == []
    await store.vector_stores.set_attributes("t", "vs_1", "file-0001", {"kind": "b"})
    assert len(await search(store, "text", filter=wanted, vector=angle(0))) == 1


async def test_true_and_1_are_different_filters(store: Stores) -> None:
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1, attributes={"k": 1}), [a_chunk(0, "text")])
    await ingest(store, a_file(2, attributes={"k": True}), [a_chunk(0, "text")])
    for value, file_id in ((1, "file-0001"), (True, "file-0002"), (1.0, "file-0001")):
        assert places(await search(store, "text", filter=Comparison("eq", "k", value))) == [(file_id, 0)]


VALUES = st.sampled_from(["a", "b", "", "1", 0, 1, 2.5, -1.0, True, False])
KEYS = st.sampled_from("xyz")
COMPARISONS = st.builds(
    Comparison, st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]), KEYS, VALUES
) | st.builds(Comparison, st.sampled_from(["in", "nin"]), KEYS, st.lists(VALUES, max_size=3).map(tuple))
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.builds(
        Compound, st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(
    wanted=st.lists(FILTERS, min_size=1, max_size=20),
    files=st.lists(st.dictionaries(st.sampled_from("xyz"), VALUES), max_size=6),
)
def test_a_filter_admits_the_chunks_of_matching_files(
    wanted: list[Filter], files: list[dict[str, Attribute]]
) -> None:
    searched = [
        SearchedFile(number, str(number), msgspec.json.encode(each).decode())
        for number, each in enumerate(files)
    ]
    portions = tuple(
        chunk_index.Portion(10 * number, 2, number, 0, struct.pack("<2I", 1, 1))
        for number in range(len(files))
    )
    index = ChunkIndex(1, 1, searched, [chunk_index.Block(portions)])
    for each in wanted:
        admitted = [number for number, file in enumerate(files) if matcher(each)(file)]
        mask = index.mask(each)
        assert [row // 2 for row in range(len(files) * 2) if mask[row]] == [n for n in admitted for _ in "ab"]
        assert index.admitted_files(mask) == admitted


async def test_another_process_changes_the_store(opened: Opened, clock: Clock, store: Stores) -> None:
    """Each has its own index in memory; the version in the row tells that it is old."""
    other = sql_stores(opened.database, LocalSignals(), clock)
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "text", 0)])
    assert len(await search(other, "text", vector=angle(0))) == 1
    await ingest(store, a_file(2), [a_chunk(0, "text", 0)])
    assert len(await search(other, "text", vector=angle(0))) == 2
    await store.vector_stores.delete_file("t", "vs_1", "file-0001")
    assert places(await search(other, "text", vector=angle(0))) == [("file-0002", 0)]
    await store.vector_stores.begin_reindex("t", "vs_1", "n")
    assert await search(other, "text", vector=angle(0)) == []


@pytest.mark.parametrize("max_bytes", [0, 1_000_000])
async def test_a_store_that_changes_all_the_time_is_searched(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    """Small files are completed faster than an index is loaded; what a search finds is of its time."""
    store, _ = with_bound(opened, clock, max_bytes)
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "text word", 10), a_chunk(1, "text", 0)])
    read, numbers, is_changing = opened.database.read, count(2), False

    async def read_of_a_changed_store(script: Script[Any]) -> Any:
        nonlocal is_changing
        if not is_changing:
            is_changing = True
            number = next(numbers)
            await ingest(store, a_file(number), [a_chunk(0, "text", 90)])
            await store.vector_stores.delete_file("t", "vs_1", a_file(number).id)
            is_changing = False
        return await read(script)

    monkeypatch.setattr(opened.database, "read", read_of_a_changed_store)
    for _ in range(2):
        found = await search(store, "word", vector=angle(0), limit=2)
        assert [(each.file_id, each.ordinal) for each in found] == [("file-0001", 0), ("file-0001", 1)]
        assert [each.similarity for each in found] == pytest.approx([math.cos(math.radians(10)), 1.0])
        assert found[0].lexical > found[1].lexical == 0


async def test_the_chunks_of_many_terms_are_read_in_steps(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite one thread reads: 64 common words in a large store would hold it for seconds."""
    monkeypatch.setattr(vector_search, "MAX_READ_POSTINGS", 150, raising=False)
    steps: list[Sequence[str]] = []
    original = vector_search.read_postings

    def recorded(
        key: Any, version: int | None, chunk_set: int, terms: Sequence[str], now: int
    ) -> Script[Any]:
        steps.append(terms)
        return original(key, version, chunk_set, terms, now)

    store, _ = with_bound(opened, clock, 1_000_000)
    source = random.Random(2)
    chunks = await fill(store, source, 16)
    monkeypatch.setattr(vector_search, "read_postings", recorded)
    await store.vector_stores.candidates("t", "vs_1", CandidateQuery(terms=WORDS))
    assert [term for step in steps for term in step] == WORDS
    assert len(steps) > 1
    assert all(len(step) <= max(150 // len(chunks), 1) for step in steps)
    await check_random_queries(store, chunks, source)


async def test_the_vectors_of_unchanged_files_are_read_once(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = postgres_vectors if isinstance(opened.database, PostgresDatabase) else sqlite_vectors
    store = sql_stores(opened.database, LocalSignals(), clock)
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "text"), a_chunk(1, "text")])
    read: list[int] = []
    original: Any = module._read  # pyright: ignore[reportPrivateUsage]

    def counted(chunk_set: int, portions: Sequence[chunk_index.Portion]) -> Script[Any]:
        read.extend(portion.count for portion in portions)
        return original(chunk_set, portions)

    monkeypatch.setattr(module, "_read", counted)
    for _ in range(3):
        await search(store, "text", vector=angle(0))
    assert read == [2]
    await ingest(store, a_file(2), [a_chunk(0, "text")])
    await search(store, "text", vector=angle(0))
    await store.vector_stores.set_attributes("t", "vs_1", "file-0001", {"k": 1})
    await search(store, "text", vector=angle(0))
    assert read == [2, 1]


async def test_indexes_are_kept_within_a_bound(opened: Opened, clock: Clock) -> None:
    store, bounded = with_bound(opened, clock, 5000)
    for number in range(1, 8):
        await store.vector_stores.add_store("t", a_store(number), [], QUOTA)
        await ingest(store, a_file(1, number), [a_chunk(0, "text")])
        await store.vector_stores.candidates("t", f"vs_{number}", CandidateQuery(terms=["text"]))
        assert bounded.memory_bytes <= 5000
    assert bounded.memory_bytes > 0


async def test_attributes_are_decoded_with_the_index_and_counted(opened: Opened, clock: Clock) -> None:
    """Of 10,000 files they are 80 MB: scripts run in the event loop, or in the only thread that reads."""
    store, bounded = with_bound(opened, clock, 1_000_000)
    held: list[int] = []
    for number, text in enumerate(("short", "x" * 512, "x" * 511 + "\N{SNOWMAN}", "x" * 511 + "\N{DUCK}"), 1):
        await store.vector_stores.add_store("t", a_store(number), [], QUOTA)
        attributes: dict[str, Attribute] = {f"key{place}": text for place in range(16)}
        await ingest(store, a_file(1, number, attributes), [a_chunk(0, "text")])
        snapshot = await opened.database.read(read_snapshot("t", f"vs_{number}", 1000))
        assert [msgspec.json.decode(file.attributes) for file in snapshot.files] == [attributes]
        before = bounded.memory_bytes
        await store.vector_stores.candidates("t", f"vs_{number}", CandidateQuery(terms=["text"]))
        held.append(bounded.memory_bytes - before)
    assert 16 * 512 < held[1] < 16 * 640
    assert [round(each / held[1]) for each in held[1:]] == [1, 2, 4], "bytes of a character"


async def test_the_scores_of_words_are_kept_within_a_bound(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_index, "MAX_KEPT_SCORE_BYTES", 40)
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    texts = [f"a b c d w{place}" for place in range(3)]
    await ingest(store, a_file(1), [a_chunk(place, text) for place, text in enumerate(texts)])
    for _ in range(2):
        for word in "abcd":
            assert len(await search(store, word)) == 3
        assert places(await search(store, "w1")) == [("file-0001", 1)]


class SlowScores(dict[str, chunk_index.TermScores]):
    """Other threads have their turn between the begin of an iteration and its first step."""

    def __iter__(self) -> Iterator[str]:
        first = super().__iter__()
        time.sleep(0.001)
        return first


def test_threads_keep_the_scores_of_words_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_index, "MAX_KEPT_SCORE_BYTES", 40)
    portion = chunk_index.Portion(0, 4, 1, 0, struct.pack("<4I", 1, 1, 1, 1))
    index = ChunkIndex(1, 1, [SearchedFile(1, "file-1", "{}")], [chunk_index.Block((portion,))])
    monkeypatch.setattr(index, "_scores", SlowScores())
    words = [f"w{number}" for number in range(200)]
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(index.term_scores, word, ["1", *[None] * 6]) for word in words]
        assert all(len(call.result().scores) == 1 for call in calls)
    kept = index.kept_scores(words)
    assert sum(each.memory_bytes for each in kept.values()) == 40


async def test_without_numpy_the_error_says_what_to_install(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "text")])
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(Unavailable, match="needs its packages: run ") as refused:
        await store.vector_stores.candidates("t", "vs_1", CandidateQuery(terms=["text"]))
    assert refused.value.code == "retrieval_not_installed"


async def test_the_index_is_made_again_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    for number in (1, 2):
        database = await SqliteDatabase.open(tmp_path / "antiphon.db")
        store = sql_stores(database, LocalSignals(), clock)
        if number == 1:
            await store.vector_stores.add_store("t", a_store(), [], QUOTA)
            await ingest(store, a_file(1), [a_chunk(0, "text")])
        assert len(await search(store, "text", vector=angle(0))) == 1
        await database.aclose()


async def test_the_index_of_a_deleted_store_is_dropped(opened: Opened, clock: Clock) -> None:
    store, bounded = with_bound(opened, clock, 5000)
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(0, "text")])
    await search(store, "text")
    await store.vector_stores.delete_store("t", "vs_1")
    with pytest.raises(NotFound):
        await search(store, "text")
    assert bounded.memory_bytes == 0


async def test_text_that_is_no_unicode_is_made_valid(store: Stores) -> None:
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    chunk = Chunk(ordinal=0, text="a \ud800", terms=["a", "\ud800"], vector=angle(0), label="\udfff")
    await ingest(store, a_file(1), [chunk])
    [found] = await store.vector_stores.content("t", "vs_1", "file-0001", 0, 1)
    assert (found.text, found.label) == ("a ?", "?")
    query = CandidateQuery(terms=["\ud800"])
    assert len(await store.vector_stores.candidates("t", "vs_1", query)) == 1


async def test_chunks_are_read_by_file_and_ordinal(store: Stores, count_rows: CountRows) -> None:
    await store.vector_stores.add_store("t", a_store(), [], QUOTA)
    await ingest(store, a_file(1), [a_chunk(place, "text") for place in range(3)])
    assert await count_rows("chunks") == 3
    found = await store.vector_stores.chunks(
        "t",
        "vs_1",
        [("file-0001", 2), ("file-0002", 0), ("file-0001", 0), ("file-0001", 9), ("file-0001", -1)],
    )
    assert [(each.ordinal, each.label, each.filename) for each in found] == [
        (2, "page 3", "1.txt"),
        (0, "page 1", "1.txt"),
    ]
    content = await store.vector_stores.content("t", "vs_1", "file-0001", 1, 1)
    assert [each.ordinal for each in content] == [1]
