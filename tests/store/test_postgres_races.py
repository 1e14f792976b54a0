"""Two processes work on the same responses concurrently: every history stays exact, and no rows are left
over.
"""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from antiphon.errors import InvalidRequest, NotFound, StoreUnavailable
from antiphon.store.base import Conversation
from antiphon.store.ports import Stores
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.sql_stores import sql_stores
from tests.postgres import PostgresServer
from tests.store.values import message, texts, turn

pytestmark = pytest.mark.slow

TABLES = ("chains", "responses", "items", "conversations", "events")


@pytest.fixture
async def stores(postgres: PostgresServer) -> AsyncIterator[list[Stores]]:
    with postgres.database() as url:
        databases = [await PostgresDatabase.open(url) for _ in range(2)]
        yield [sql_stores(database, database.signals, lambda: 1000.0) for database in databases]
        remaining = {table: postgres.execute(f"SELECT count(*) FROM {table}", url) for table in TABLES}
        await asyncio.gather(*(database.aclose() for database in databases))
        assert set(remaining.values()) == {"0"}, remaining


class Family:
    """Responses that continue each other, with the expected history of each."""

    def __init__(self, stores: list[Stores]) -> None:
        self.stores = stores
        self.random = random.Random(7)
        self.histories: dict[str, list[str]] = {}
        self.refused = 0

    def hot(self) -> list[str]:
        """The newest few responses, on which both processes work."""
        return [*self.histories][-3:]

    async def grow(self, name: str) -> None:
        """Continue an existing response, or start a new chain."""
        parent = self.random.choice([*self.hot(), None])
        store = self.random.choice(self.stores)
        history = [*self.histories.get(parent or "", ()), f"{name}?", f"{name}!"]
        try:
            await store.responses.save("t", turn(name, parent))
        except NotFound:
            assert parent not in self.histories
        except StoreUnavailable:
            self.refused += 1
        else:
            self.histories[name] = history

    async def shrink(self) -> None:
        """Delete an existing response."""
        if self.histories:
            name = self.random.choice(self.hot())
            history = self.histories.pop(name)
            try:
                await self.random.choice(self.stores).responses.delete("t", f"resp_{name}")
            except StoreUnavailable:
                self.histories[name] = history
                self.refused += 1

    async def live(self, worker: int) -> None:
        for step in range(40):
            if self.random.random() < 0.7:
                await self.grow(f"{worker}-{step}")
            else:
                await self.shrink()


async def test_responses_that_are_continued_and_deleted_at_the_same_time(stores: list[Stores]) -> None:
    family = Family(stores)
    await asyncio.gather(*(family.live(worker) for worker in range(8)))
    assert len(family.histories) > 20
    for name, history in family.histories.items():
        assert texts((await stores[0].responses.continuation("t", f"resp_{name}")).items) == history
    while family.histories:
        await family.shrink()
    assert family.refused < 10


async def test_of_many_continuations_of_one_response_each_is_a_branch(stores: list[Stores]) -> None:
    await stores[0].responses.save("t", turn("0"))
    names = [str(n) for n in range(1, 21)]
    await asyncio.gather(
        *(stores[n % 2].responses.save("t", turn(name, "0")) for n, name in enumerate(names))
    )
    for name in names:
        continuation = await stores[1].responses.continuation("t", f"resp_{name}")
        assert texts(continuation.items) == ["0?", "0!", f"{name}?", f"{name}!"]
    for name in ("0", *names):
        await stores[0].responses.delete("t", f"resp_{name}")


async def test_only_one_of_many_enters_a_conversation(stores: list[Stores]) -> None:
    await stores[0].conversations.add_conversation(
        "t", Conversation(id="conv_1", created_at=1), [message("hello")]
    )
    outcomes = await asyncio.gather(
        *(stores[n % 2].conversations.enter("t", "conv_1", f"resp_{n}", 60.0) for n in range(20)),
        return_exceptions=True,
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, InvalidRequest)]
    assert len(refused) == 19
    assert {error.code for error in refused} == {"conversation_locked"}
    await stores[0].conversations.delete_conversation("t", "conv_1")


async def test_items_that_many_add_to_a_conversation_are_all_there(stores: list[Stores]) -> None:
    await stores[0].conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [])
    await asyncio.gather(
        *(stores[n % 2].conversations.add_items("t", "conv_1", [message(str(n))]) for n in range(20))
    )
    items = (await stores[0].conversations.enter("t", "conv_1", "resp_1", 60.0)).items
    assert sorted(texts(items)) == sorted(str(n) for n in range(20))
    await stores[0].conversations.delete_conversation("t", "conv_1")
