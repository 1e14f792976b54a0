"""Searches: scores, filters, several queries and stores, neighbours, and stores that cannot be searched."""

import time

import pytest

from antiphon.errors import BackendUnreachable, EmbeddingUnavailable, InvalidRequest, NotFound
from antiphon.protocol.attribute_filters import parse_filter
from antiphon.protocol.vector_stores import Chunking, StaticChunking, StoreChange, StoreExpiry, parse_search
from antiphon.service.vector_stores.objects import store_object
from antiphon.service.vector_stores.passages import HybridWeights, PassageQuery
from antiphon.service.vector_stores.search import MAX_JOINED_CHUNKS, passage_query
from antiphon.store.signals import LocalSignals
from antiphon.store.sql_stores import sql_stores
from tests.service.vector_stores.world import CALLER, TestedEmbedder, World, open_world
from tests.store.conftest import Clock, Opened

ANIMALS = ("The owl hunts at night.", "The whale sings in the sea.", "The ant carries a leaf.")


@pytest.mark.requirement("VECTOR-STORES/search-results")
async def test_scores_are_between_0_and_1_and_the_best_comes_first(world: World) -> None:
    store = await world.new_store(*ANIMALS)
    found = await world.search(store.id, "whale in the sea")
    assert found[0].text == ANIMALS[1]
    scores = [passage.score for passage in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


@pytest.mark.requirement("VECTOR-STORES/search-ranking")
async def test_a_threshold_and_a_limit(world: World) -> None:
    store = await world.new_store(*ANIMALS)
    [best] = await world.search(store.id, "the whale sings in the sea", score_threshold=0.9)
    assert best.text == ANIMALS[1]
    assert len(await world.search(store.id, "owl whale ant", limit=2)) == 2
    assert await world.search(store.id, "owl", score_threshold=1.0) == []


@pytest.mark.requirement("VECTOR-STORES/search-several-queries")
async def test_several_queries_are_one_call_and_each_chunk_has_its_best_score(world: World) -> None:
    store = await world.new_store(*ANIMALS)
    alone = {passage.text: passage.score for passage in await world.search(store.id, "owl hunts")}
    world.embedder.calls.clear()
    both = {passage.text: passage.score for passage in await world.search(store.id, "owl hunts", "ant leaf")}
    assert world.embedder.calls == [["owl hunts", "ant leaf"]]
    assert both[ANIMALS[0]] == pytest.approx(alone[ANIMALS[0]])
    assert set(both) >= {ANIMALS[0], ANIMALS[2]}


@pytest.mark.requirement("VECTOR-STORES/search-ranking")
async def test_weights(world: World) -> None:
    store = await world.new_store(*ANIMALS)
    world.embedder.calls.clear()
    words = await world.search(store.id, "owl", weights=HybridWeights(0.0, 1.0))
    assert [(passage.text, passage.score) for passage in words] == [(ANIMALS[0], 1.0)]
    assert world.embedder.calls == []
    vectors = await world.search(store.id, ANIMALS[0], weights=HybridWeights(2.0, 0.0))
    assert vectors[0].score == pytest.approx(1.0, abs=1e-5)
    assert vectors[0].text == ANIMALS[0]


@pytest.mark.requirement("VECTOR-STORES/search-filters")
async def test_filters_are_applied_before_the_ranking(world: World) -> None:
    store = await world.new_store()
    for number in range(30):
        await world.add(
            store.id, "all about owls and owls", f"{number}.txt", attributes={"number": float(number)}
        )
    wanted = parse_filter({"type": "eq", "key": "number", "value": 17})
    found = await world.search(store.id, "owls", filter=wanted, limit=1)
    assert [passage.filename for passage in found] == ["17.txt"]
    assert found[0].attributes == {"number": 17.0}
    changed = await world.service.files.set_attributes(CALLER, store.id, found[0].file_id, {"number": 99.0})
    assert changed.attributes == {"number": 99.0}
    assert await world.search(store.id, "owls", filter=wanted) == []


@pytest.mark.requirement("VECTOR-STORES/search-neighbours")
async def test_neighbours_are_joined_without_what_they_repeat(world: World) -> None:
    text = "\n\n".join(f"Part {number}: the owl " + f"filler{number} " * 40 for number in range(4))
    store = await world.new_store()
    await world.add(store.id, text, chunking_strategy=StaticChunking(Chunking(200, 100)))
    found = await world.search(store.id, "owl")
    whole = found[0].text
    for number in range(4):
        assert all(passage.text.count(f"Part {number}:") <= 1 for passage in found)
    assert any(whole.count(f"Part {number}:") for number in range(4))
    assert len(found) < 4


async def test_few_neighbours_become_one_passage(world: World) -> None:
    text = "\n\n".join(f"Chapter {number} is about the owl. " + "filler " * 50 for number in range(12))
    store = await world.new_store()
    await world.add(store.id, text, chunking_strategy=StaticChunking(Chunking(100, 0)))
    found = await world.search(store.id, "chapter owl", limit=50)
    assert max(passage.text.count("Chapter") for passage in found) <= MAX_JOINED_CHUNKS
    assert sum(passage.text.count("Chapter") for passage in found) == 12


async def test_several_stores_are_searched_together(world: World) -> None:
    one, other = await world.new_store(ANIMALS[0]), await world.new_store(ANIMALS[1])
    query = PassageQuery(queries=("owl whale",))
    found = await world.service.search.search("owner", [one.id, other.id, one.id], query)
    assert {(passage.store_id, passage.text) for passage in found} == {
        (one.id, ANIMALS[0]),
        (other.id, ANIMALS[1]),
    }


async def test_an_empty_store_has_nothing(world: World) -> None:
    store = await world.new_store()
    world.embeddings.change([])
    assert await world.search(store.id, "anything") == []


async def test_unknown_foreign_and_expired_stores(world: World) -> None:
    store = await world.new_store(ANIMALS[0])
    for tenant, name in (("owner", "vs_unknown"), ("other", store.id)):
        with pytest.raises(NotFound):
            await world.service.search.check(tenant, [name])
        with pytest.raises(NotFound):
            await world.service.search.search(tenant, [name], PassageQuery(queries=("owl",)))
    await world.service.search.check("owner", [store.id])


async def test_a_search_counts_as_use(world: World) -> None:
    store = await world.new_store(ANIMALS[0])
    changed = await world.service.change(
        CALLER, store.id, StoreChange(expires_after=StoreExpiry("last_active_at", 3))
    )
    assert changed.expires_after_days == 3
    await world.search(store.id, "owl")
    assert (await world.service.retrieve(CALLER, store.id)).last_active_at >= store.last_active_at


@pytest.mark.requirement("VECTOR-STORES/search-unavailable")
async def test_a_model_that_fails_is_a_503(world: World) -> None:
    store = await world.new_store(ANIMALS[0])
    world.embedder.errors = [BackendUnreachable("No connection.")]
    with pytest.raises(EmbeddingUnavailable, match="No connection") as raised:
        await world.search(store.id, "owl")
    assert (raised.value.status, raised.value.code) == (503, "embedding_unavailable")


@pytest.mark.requirement("VECTOR-STORES/search-model")
async def test_another_model_of_the_same_name_is_noticed(world: World) -> None:
    store = await world.new_store(ANIMALS[0])
    world.embeddings.change([TestedEmbedder("hashed", dimensions=16)])
    with pytest.raises(InvalidRequest, match=f"antiphon vector-stores reindex {store.id}") as raised:
        await world.search(store.id, "owl")
    assert raised.value.code == "embedding_model_mismatch"


@pytest.mark.requirement("VECTOR-STORES/search-rewrite")
def test_a_rewritten_query_has_the_words_that_carry_its_meaning() -> None:
    search = parse_search(b'{"query": ["What is the weather in the woods?"], "rewrite_query": true}')
    assert passage_query(search).queries == ("weather woods",)
    assert passage_query(parse_search(b'{"query": "What is it?"}')).queries == ("What is it?",)


@pytest.mark.requirement("VECTOR-STORES/store-expiry", "VECTOR-STORES/search-expired")
async def test_a_store_that_expires_between_two_searches(opened: Opened, clock: Clock) -> None:
    clock.now = time.time()
    stores = sql_stores(opened.database, LocalSignals(), clock)
    async with open_world(stores) as world:
        store = await world.new_store(ANIMALS[0], expires_after=StoreExpiry("last_active_at", 1))
        assert await world.search(store.id, "owl")
        clock.now += 2 * 86400
        for refused in (world.search(store.id, "owl"), world.add(store.id, "more")):
            with pytest.raises(InvalidRequest) as raised:
                await refused
            assert raised.value.code == "vector_store_expired"
        with pytest.raises(InvalidRequest):
            await world.service.search.check("owner", [store.id])
        expired = store_object(await world.service.retrieve(CALLER, store.id))
        assert (expired.status, expired.file_counts.total) == ("expired", 0)
