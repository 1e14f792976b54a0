"""Stored items: with their own ids, and without consumed items."""

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.stored_items import item_id, item_type
from antiphon.store.base import Page
from antiphon.store.ports import Stores
from tests.service.conftest import MakeCreator
from tests.service.responses.test_create import create_response


@pytest.mark.requirement("PROTOCOL/items-ids-once")
async def test_a_duplicate_id_is_replaced(make_creator: MakeCreator, store: Stores) -> None:
    creator = make_creator(ScriptedBackend.saying("x"))
    mine = {"role": "user", "id": "msg_mine", "content": "hi"}
    first = await create_response(creator, input=[mine, mine])
    second = await create_response(
        creator, input=[mine, {"type": "item_reference", "id": "msg_mine"}], previous_response_id=first.id
    )
    page = await store.responses.input_items("t", second.id, Page(order="asc"))
    ids = [item_id(item) for item in page.items]
    assert len(set(ids)) == len(ids) == 5
    assert ids[0] == "msg_mine"


async def test_a_trigger_is_not_stored(make_creator: MakeCreator, store: Stores) -> None:
    creator = make_creator(ScriptedBackend.saying("a summary"))
    response = await create_response(
        creator, input=[{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]
    )
    assert [item_type(item) for item in response.output] == ["compaction"]
    stored = await store.responses.input_items("t", response.id, Page())
    assert [item_type(item) for item in stored.items] == ["message"]
