"""A cross-encoder of an upstream ranks the best results again."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from antiphon.errors import BackendBroken, RerankingUnavailable, SettingsError
from antiphon.retrieval.reranking import UpstreamReranker
from antiphon.service.vector_stores.passages import PassageQuery
from antiphon.service.vector_stores.search import MAX_RERANKED_CHUNKS, Passages
from antiphon.settings import Settings, UpstreamSettings, VectorStoreSettings
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.embeddings import make_json_client
from antiphon.wiring.vector_stores import make_passages
from tests.service.vector_stores.world import CALLER, World

ANIMALS = ("The owl hunts at night.", "The whale sings in the sea.", "The owl is an animal.")
QUERY = PassageQuery(queries=("owl night", "whale"))


class RerankServer:
    """A server with `/rerank`; it scores texts by their length, unless it is given an answer."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answer: web.Response | None = None
        self.scale = 0.01

    async def rerank(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append({**body, "key": request.headers.get("authorization")})
        results = [
            {"index": place, "relevance_score": len(text) * self.scale}
            for place, text in enumerate(body["documents"])
        ]
        return self.answer or web.json_response({"results": results[::-1]})


@asynccontextmanager
async def serving() -> AsyncGenerator[tuple[RerankServer, str], None]:
    server, app = RerankServer(), web.Application()
    app.router.add_post("/v1/rerank", server.rerank)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield server, f"http://{host}:{port}/v1"
    finally:
        await runner.cleanup()


def upstream(url: str) -> UpstreamSettings:
    return UpstreamSettings(base_url=url, api_key="secret", rerank_models=("cross",), retries=0)


@asynccontextmanager
async def reranking() -> AsyncGenerator[tuple[RerankServer, UpstreamReranker], None]:
    async with serving() as (server, url):
        reranker = UpstreamReranker(make_json_client(make_endpoint(upstream(url), 10.0)), "cross")
        yield server, reranker
        await reranker.aclose()


async def ranked(world: World, reranker: UpstreamReranker, store_id: str, query: PassageQuery) -> list[str]:
    passages = Passages(world.stores.vector_stores, world.embeddings, reranker)
    found = await passages.search(CALLER.tenant, [store_id], query)
    assert [passage.score for passage in found] == sorted((each.score for each in found), reverse=True)
    return [passage.text for passage in found]


@pytest.mark.requirement("VECTOR-STORES/search-reranking")
async def test_the_reranker_decides_the_order_and_the_scores(world: World) -> None:
    store = await world.new_store(*ANIMALS)
    async with reranking() as (server, reranker):
        assert await ranked(world, reranker, store.id, QUERY) == sorted(ANIMALS, key=len, reverse=True)
        [asked] = server.requests
        assert (asked["model"], asked["query"], asked["key"]) == ("cross", "owl night", "Bearer secret")
        assert set(asked["documents"]) == set(ANIMALS)
        assert len(asked["documents"]) <= MAX_RERANKED_CHUNKS
        above = replace(QUERY, score_threshold=0.25)
        assert await ranked(world, reranker, store.id, above) == [ANIMALS[1]]


@pytest.mark.requirement("VECTOR-STORES/search-reranking")
async def test_without_candidates_and_with_the_ranker_none_it_is_not_asked(world: World) -> None:
    store, empty = await world.new_store(*ANIMALS), await world.new_store()
    async with reranking() as (server, reranker):
        await ranked(world, reranker, store.id, PassageQuery(queries=("owl night",), ranker="none"))
        assert await ranked(world, reranker, empty.id, QUERY) == []
        assert server.requests == []


async def test_scores_without_bounds_become_shares() -> None:
    async with reranking() as (server, reranker):
        server.scale = 1.0
        found = await reranker.scores("q", ["", "abc", "x" * 200])
    assert found[0] == pytest.approx(0.5)
    assert 0.5 < found[1] < found[2] <= 1


@pytest.mark.parametrize(
    "body", [{"results": []}, {"results": [{"index": 5, "relevance_score": 1.0}]}, {"data": []}, [1]]
)
async def test_an_answer_without_scores_is_an_error(body: object) -> None:
    async with reranking() as (server, reranker):
        server.answer = web.json_response(body)
        with pytest.raises(BackendBroken, match="did not answer with scores"):
            await reranker.scores("q", ["a"])


@pytest.mark.requirement("VECTOR-STORES/search-reranking")
async def test_a_reranker_that_fails_is_a_503(world: World) -> None:
    store = await world.new_store(*ANIMALS)
    async with reranking() as (server, reranker):
        server.answer = web.json_response({"error": {"message": "out of memory"}}, status=500)
        with pytest.raises(RerankingUnavailable, match="cannot be ranked now") as caught:
            await ranked(world, reranker, store.id, QUERY)
    assert (caught.value.status, caught.value.code) == (503, "reranking_unavailable")
    assert caught.value.retry_after


async def test_the_settings_name_a_model_of_an_upstream(world: World) -> None:
    row = upstream("http://127.0.0.1:9/v1")
    stores, embeddings = world.stores, world.embeddings
    async with AsyncExitStack() as stack:
        none = make_passages(Settings(upstreams=(row,)), stores, embeddings, stack)
        assert none.reranker is None
        chosen = Settings(upstreams=(row,), vector_stores=VectorStoreSettings(reranker="cross"))
        assert isinstance(make_passages(chosen, stores, embeddings, stack).reranker, UpstreamReranker)
        other = Settings(upstreams=(row,), vector_stores=VectorStoreSettings(reranker="other"))
        with pytest.raises(SettingsError, match="no upstream has the model 'other'"):
            make_passages(other, stores, embeddings, stack)
