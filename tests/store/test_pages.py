"""Pages of items: in both orders, from both ends, with a correct `has_more`."""

import re
from collections.abc import Sequence
from typing import Literal

import pytest

from antiphon.errors import InvalidRequest
from antiphon.store.base import Conversation, Page, StoredResponse
from antiphon.store.ports import Stores
from tests.store.values import ALL_ITEMS, answers, events, message, queued, response, texts, turn

PAST = ["1?", "1!", "2?", "2!", "3?", "3!", "4?"]
"""The input of response 4; it spans three chains."""


@pytest.fixture
async def branched(store: Stores) -> Stores:
    await store.responses.save("t", turn("1"))
    await store.responses.save("t", turn("x", "1"))
    await store.responses.save("t", turn("2", "1"))
    await store.responses.save("t", turn("y", "2"))
    await store.responses.save("t", turn("3", "2"))
    await store.responses.save("t", turn("4", "3"))
    return store


async def page(
    store: Stores,
    limit: int = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
    before: str | None = None,
) -> tuple[list[str], bool]:
    wanted = Page(limit=limit, order=order, after=after, before=before)
    found = await store.responses.input_items("t", "resp_4", wanted)
    return texts(found.items), found.has_more


async def test_the_complete_list_is_the_history_and_the_responses_input(branched: Stores) -> None:
    assert await page(branched, limit=100, order="asc") == (PAST, False)
    assert await page(branched, limit=100) == (PAST[::-1], False)
    assert await page(branched, limit=7, order="asc") == (PAST, False), "exactly all of them"


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
@pytest.mark.requirement("PROTOCOL/state-input-items-pages")
async def test_going_forward_shows_every_item_once(
    branched: Stores, order: Literal["asc", "desc"], limit: int
) -> None:
    seen: list[str] = []
    more = True
    while more:
        after = f"msg_{seen[-1]}" if seen else None
        items, more = await page(branched, limit=limit, order=order, after=after)
        seen += items
        assert len(items) == limit or not more
    assert seen == (PAST if order == "asc" else PAST[::-1])


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_going_back_shows_every_item_once(
    branched: Stores, order: Literal["asc", "desc"], limit: int
) -> None:
    expected = PAST if order == "asc" else PAST[::-1]
    seen = [expected[-1]]
    more = True
    while more:
        items, more = await page(branched, limit=limit, order=order, before=f"msg_{seen[0]}")
        seen = items + seen
    assert seen == expected


async def test_between_two_items_the_page_begins_at_after(branched: Stores) -> None:
    assert await page(branched, limit=2, order="asc", after="msg_1?", before="msg_3!") == (["1!", "2?"], True)
    assert await page(branched, limit=4, order="asc", after="msg_1?", before="msg_3!") == (PAST[1:5], False)
    assert await page(branched, limit=2, after="msg_3!", before="msg_1?") == (["3?", "2!"], True)
    assert await page(branched, after="msg_1?", before="msg_3!") == ([], False)


@pytest.mark.parametrize("name", ["msg_nobody", "msg_x?", "msg_y!", "msg_4!"])
async def test_a_cursor_that_is_not_in_the_list_is_rejected(branched: Stores, name: str) -> None:
    for param, call in (("after", page(branched, after=name)), ("before", page(branched, before=name))):
        with pytest.raises(InvalidRequest, match=re.escape(name)) as refused:
            await call
        assert (refused.value.param, refused.value.code) == (param, "invalid_value")


async def test_paging_ends_even_with_a_duplicate_id(store: Stores) -> None:
    messages = (message("a"), message("b"), message("a"), message("c"))
    await store.responses.save("t", StoredResponse(response=response("resp_4"), input=messages))
    assert await page(store, limit=1, order="asc", after="msg_a") == (["c"], False)
    assert await page(store, limit=1, after="msg_a") == ([], False)


async def test_the_input_of_an_unfinished_response_is_listed_after_its_history(store: Stores) -> None:
    await store.responses.save("t", turn("1"))
    waiting = queued("4", "1")
    await store.background.submit("t", waiting, b"{}", events(0), "nobody")
    expected = ["1?", "1!", "4?"]
    assert await page(store, limit=3, order="asc") == (expected, False)
    assert await page(store, limit=2) == (["4?", "1!"], True)
    assert await page(store, limit=1, order="asc", after="msg_1!") == (["4?"], False)
    assert await page(store, limit=1, after="msg_4?") == (["1!"], True)
    assert await page(store, limit=5, order="asc", before="msg_4?") == (["1?", "1!"], False)


async def test_the_items_of_a_conversation_are_paged_alike(store: Stores) -> None:
    items = [message("a"), answers("b"), message("c")]
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), items)

    async def listed(wanted: Page) -> tuple[Sequence[str], bool]:
        found = await store.conversations.conversation_items("t", "conv_1", wanted)
        return texts(found.items), found.has_more

    assert await listed(ALL_ITEMS) == (["a", "b", "c"], False)
    assert await listed(Page(limit=2)) == (["c", "b"], True)
    assert await listed(Page(limit=2, after="msg_b")) == (["a"], False)
    assert await listed(Page(limit=1, order="asc", before="msg_c")) == (["b"], True)
    with pytest.raises(InvalidRequest):
        await listed(Page(after="msg_x"))
