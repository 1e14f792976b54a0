"""Long histories: they are read in pages, and a reader may stop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from antiphon.errors import NotFound, Overloaded
from antiphon.protocol.items import Item, Message
from antiphon.store import histories
from antiphon.store.base import Continuation, Conversation, StoredResponse
from antiphon.store.histories import Histories
from antiphon.store.ports import Stores
from tests.store.values import events, message, queued, response, texts, turn

SMALL, LARGE = 10, 20_000


class Room:
    """Notes what is taken. It refuses at the call with this number."""

    def __init__(self, refuse_at: int = 0) -> None:
        self.counts: list[int] = []
        self.taken: list[int] = []
        self._refuse_at = refuse_at

    def check_items(self, count: int) -> None:
        self.counts.append(count)

    def take(self, size: int) -> None:
        self.taken.append(size)
        if len(self.taken) == self._refuse_at:
            raise Overloaded("full")


def sized(name: str, size: int) -> Message:
    return Message(id=f"msg_{name}", role="user", content="ü" * size)


def long_turn(name: str, items: Sequence[Item], parent: str | None = None) -> StoredResponse:
    return StoredResponse(
        response=response(f"resp_{name}", f"{name}!"),
        parent=None if parent is None else f"resp_{parent}",
        input=tuple(items),
        private={f"msg_{name}!": '{"a": 1}'},
    )


async def save_long(store: Stores, *, parent: str | None = None) -> list[str]:
    """Three responses with 2,700 items, every hundredth of them large; the texts of the history."""
    known: list[str] = []
    for number in range(3):
        name = f"long{number}"
        items = [sized(f"{name}-{index}", LARGE if index % 100 == 7 else SMALL) for index in range(899)]
        await store.responses.save("t", long_turn(name, items, parent))
        known += [*texts(items), f"{name}!"]
        parent = name
    return known


async def test_a_long_history_is_read_in_pages(store: Stores) -> None:
    known, room = await save_long(store), Room()
    continuation = await store.responses.continuation("t", "resp_long2", room)
    assert texts(continuation.items) == known
    assert continuation.private == {f"msg_long{n}!": '{"a": 1}' for n in range(3)}
    assert room.counts == [2700]
    assert len(room.taken) == 3
    assert sum(room.taken) == continuation.size > 27 * LARGE


async def test_a_page_ends_with_the_item_that_makes_it_full(store: Stores) -> None:
    items = [sized(str(index), 400_000) for index in range(8)]
    await store.responses.save("t", long_turn("big", items))
    room = Room()
    continuation = await store.responses.continuation("t", "resp_big", room)
    assert texts(continuation.items) == [*texts(items), "big!"]
    assert len(room.taken) == 3
    assert max(room.taken) < histories.PAGE_CHARACTERS + 400_100


async def test_a_short_history_has_one_page(store: Stores) -> None:
    await store.responses.save("t", turn("1"))
    room = Room()
    assert len((await store.responses.continuation("t", "resp_1", room)).items) == 2
    assert len(room.taken) == 1


async def test_a_history_through_many_branches_is_read_in_pages(store: Stores) -> None:
    parent, known = None, list[str]()
    for number in range(histories.MAX_PAGE_PARTS + 20):  # each one but the last begins a branch
        name, other = f"b{number}", f"x{number}"
        await store.responses.save("t", turn(other, parent))
        await store.responses.save("t", turn(name, parent))
        known += [f"{name}?", f"{name}!"]
        parent = name
    room = Room()
    continuation = await store.responses.continuation("t", f"resp_{parent}", room)
    assert texts(continuation.items) == known
    assert len(room.taken) == 2


async def test_a_reader_without_room_stops(store: Stores) -> None:
    await save_long(store)
    room = Room(refuse_at=2)
    with pytest.raises(Overloaded):
        await store.responses.continuation("t", "resp_long2", room)
    assert len(room.taken) == 2


READS: dict[str, Callable[[Stores], Awaitable[Continuation]]] = {
    "continuation": lambda store: store.responses.continuation("t", "resp_long2"),
    "base": lambda store: store.background.base("t", "resp_run"),
    "history": lambda store: store.conversations.history("t", "conv_1"),
    "enter": lambda store: store.conversations.enter("t", "conv_1", "resp_1", 60.0),
}


@pytest.mark.parametrize("kind", READS)
async def test_a_history_that_is_deleted_meanwhile_is_not_found(
    kind: str, store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save_long(store)
    await store.background.submit("t", queued("run", "long2"), b"{}", events(0), "nobody")
    given = [message(str(index)) for index in range(500)]
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), given)
    complete = Histories.complete

    async def deleted(reader: Histories, *args: Any) -> Continuation:
        for name in ("run", "long2", "long1", "long0"):
            await store.responses.delete("t", f"resp_{name}")
        await store.conversations.delete_conversation("t", "conv_1")
        return await complete(reader, *args)

    monkeypatch.setattr(Histories, "complete", deleted)
    with pytest.raises(NotFound):
        await READS[kind](store)


async def test_others_read_between_the_pages_of_a_long_history(store: Stores) -> None:
    known = await save_long(store)
    await store.responses.save("t", turn("1"))
    order: list[str] = []

    async def read_long() -> None:
        assert texts((await store.responses.continuation("t", "resp_long2")).items) == known
        order.append("long")

    async def read_short() -> None:
        await store.responses.response("t", "resp_1")
        order.append("short")

    await asyncio.gather(*(read_long() for _ in range(8)), read_short())
    assert order[0] == "short"


async def test_a_tenant_reads_two_long_histories_at_a_time(store: Stores) -> None:
    await save_long(store)
    pages: list[int] = []

    class Marked(Room):
        def __init__(self, number: int) -> None:
            super().__init__()
            self._number = number

        def take(self, size: int) -> None:
            if self.taken:  # the first page is read at once
                pages.append(self._number)
            super().take(size)

    await asyncio.gather(
        *(store.responses.continuation("t", "resp_long2", Marked(number)) for number in range(4))
    )
    spans = [(pages.index(number), len(pages) - pages[::-1].index(number)) for number in range(4)]
    at_a_time = [sum(begin <= place < end for begin, end in spans) for place in range(len(pages))]
    assert max(at_a_time) <= 2


async def test_a_conversation_is_read_without_its_deleted_items(store: Stores) -> None:
    given = [message(str(index)) for index in range(1500)]
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), given)
    await store.conversations.delete_item("t", "conv_1", "msg_1200")
    kept = [text for text in texts(given) if text != "1200"]
    assert texts((await store.conversations.history("t", "conv_1")).items) == kept
    assert texts((await store.conversations.enter("t", "conv_1", "resp_1", 60.0)).items) == kept
