"""Chains: every response has its own exact history, stored once, and erased when it is no longer needed."""

import asyncio
import random

import pytest

from antiphon.errors import NotFound
from antiphon.store import chains
from antiphon.store.base import StoredResponse
from antiphon.store.chains import Position
from antiphon.store.ports import Stores
from tests.store.conftest import CountRows, Opened
from tests.store.values import answers, history, message, response, texts, turn

TABLES = ("chains", "responses", "items", "events", "conversations")


async def everything(count_rows: CountRows) -> dict[str, int]:
    return {table: await count_rows(table) for table in TABLES}


async def test_history_follows_the_parents(store: Stores, count_rows: CountRows) -> None:
    await store.responses.save("t", turn("1"))
    await store.responses.save("t", turn("2", "1"))
    await store.responses.save("t", turn("3", "2"))
    assert await history(store, "3") == ["1?", "1!", "2?", "2!", "3?", "3!"]
    assert await history(store, "1") == ["1?", "1!"]
    assert await count_rows("chains") == 1, "going on from the head needs no branch"


async def test_two_continuations_of_one_response_are_two_branches(
    store: Stores, count_rows: CountRows
) -> None:
    await store.responses.save("t", turn("1"))
    await asyncio.gather(*(store.responses.save("t", turn(name, "1")) for name in ("a", "b", "c")))
    for name in ("a", "b", "c"):
        assert await history(store, name) == ["1?", "1!", f"{name}?", f"{name}!"]
    assert await count_rows("chains") == 3
    assert await count_rows("items") == 8, "the common past is stored once"


async def test_branches_of_branches_have_their_own_history(store: Stores) -> None:
    await store.responses.save("t", turn("1"))
    await store.responses.save("t", turn("2", "1"))
    await store.responses.save("t", turn("3", "2"))
    await store.responses.save("t", turn("2b", "1"))
    await store.responses.save("t", turn("3b", "2b"))
    await store.responses.save("t", turn("3c", "2b"))
    await store.responses.save("t", turn("4c", "3c"))
    assert await history(store, "4c") == ["1?", "1!", "2b?", "2b!", "3c?", "3c!", "4c?", "4c!"]
    assert await history(store, "3b") == ["1?", "1!", "2b?", "2b!", "3b?", "3b!"]
    assert await history(store, "3") == ["1?", "1!", "2?", "2!", "3?", "3!"]


async def test_responses_without_items_can_be_continued(store: Stores) -> None:
    await store.responses.save("t", StoredResponse(response=response("resp_0")))
    await store.responses.save("t", StoredResponse(response=response("resp_1"), parent="resp_0"))
    await store.responses.save("t", turn("2", "1"))
    await store.responses.save("t", turn("3", "0"))
    assert await history(store, "1") == []
    assert await history(store, "2") == ["2?", "2!"]
    assert await history(store, "3") == ["3?", "3!"]


async def test_deleting_does_not_change_descendants(store: Stores, count_rows: CountRows) -> None:
    await store.responses.save("t", turn("1"))
    await store.responses.save("t", turn("2", "1"))
    await store.responses.save("t", turn("3", "1"))
    await store.responses.delete("t", "resp_1")
    assert await history(store, "2") == ["1?", "1!", "2?", "2!"]
    assert await history(store, "3") == ["1?", "1!", "3?", "3!"]
    with pytest.raises(NotFound):
        await store.responses.item("t", "msg_1?")
    assert (await store.responses.item("t", "msg_2?")).item == message("2?")
    assert await count_rows("items") == 6


async def test_the_end_of_a_chain_is_erased_at_once(store: Stores, count_rows: CountRows) -> None:
    await store.responses.save("t", turn("1"))
    await store.responses.save("t", turn("2", "1"))
    await store.responses.delete("t", "resp_2")
    assert await count_rows("items") == 2
    await store.responses.save("t", turn("2b", "1"))
    assert await history(store, "2b") == ["1?", "1!", "2b?", "2b!"]
    with pytest.raises(NotFound):
        await store.responses.save("t", turn("3", "2"))


async def test_continuing_a_concurrently_erased_response_fails(store: Stores, opened: Opened) -> None:
    """On PostgreSQL a response can be deleted while a response that continues it is being saved."""
    await store.responses.save("t", turn("1"))
    await store.responses.save("t", turn("2", "1"))
    end = Position("resp_1", 4)
    assert await opened.database.write(chains.extend("t", end, 0)) == end
    await store.responses.delete("t", "resp_2")
    assert await opened.database.write(chains.extend("t", end, 0)) is None


async def test_deleting_the_last_branch_erases_the_past_of_a_deleted_parent(
    store: Stores, count_rows: CountRows
) -> None:
    await store.responses.save("t", turn("1"))
    await store.responses.save("t", turn("2", "1"))
    await store.responses.save("t", turn("3", "1"))
    await store.responses.save("t", turn("4", "3"))
    await store.responses.delete("t", "resp_1")
    await store.responses.delete("t", "resp_2")
    assert await count_rows("items") == 6, "no response continues 2, but 3 continues 1"
    await store.responses.delete("t", "resp_3")
    assert await history(store, "4") == ["1?", "1!", "3?", "3!", "4?", "4!"]
    await store.responses.delete("t", "resp_4")
    assert set((await everything(count_rows)).values()) == {0}


@pytest.mark.parametrize("seed", range(12))
async def test_any_mixture_of_saves_and_deletes_preserves_every_history(
    store: Stores, count_rows: CountRows, seed: int
) -> None:
    chance = random.Random(seed)
    pasts: dict[str, list[str]] = {}
    for number in range(60):
        if pasts and chance.random() < 0.35:
            name = chance.choice(sorted(pasts))
            await store.responses.delete("t", f"resp_{name}")
            del pasts[name]
            continue
        parent = chance.choice([None, *sorted(pasts)[-4:]])
        size = chance.randrange(3)
        output = f"{number}!" if size else None
        stored = StoredResponse(
            response=response(f"resp_{number}", output),
            parent=None if parent is None else f"resp_{parent}",
            input=tuple(message(f"{number}?{each}") for each in range(size)),
        )
        await store.responses.save("t", stored)
        own = texts([*stored.input, *([answers(output)] if output else [])])
        pasts[str(number)] = [*pasts.get(parent or "", []), *own]
    for name, past in pasts.items():
        assert await history(store, name) == past
    needed = {item for past in pasts.values() for item in past}
    assert await count_rows("items") == len(needed), "no unreferenced rows remain"
    for name in pasts:
        await store.responses.delete("t", f"resp_{name}")
    assert set((await everything(count_rows)).values()) == {0}
