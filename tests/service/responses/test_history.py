"""Items as they are stored: with ids of their own, and without what has done its work."""

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.stored_items import item_id, item_type
from antiphon.store.base import Page
from antiphon.store.ports import Stores
from tests.service.conftest import MakeCreator
from tests.service.responses.test_create import ask


@pytest.mark.requirement("PROTOCOL/items-ids-once")
async def test_an_id_that_comes_again_is_replaced(make_creator: MakeCreator, store: Stores) -> None:
    creator = make_creator(ScriptedBackend.saying("x"))
    mine = {"role": "user", "id": "msg_mine", "content": "hi"}
    first = await ask(creator, input=[mine, mine])
    second = await ask(
        creator, input=[mine, {"type": "item_reference", "id": "msg_mine"}], previous_response_id=first.id
    )
    page = await store.responses.input_items("t", second.id, Page(order="asc"))
    ids = [item_id(item) for item in page.items]
    assert len(set(ids)) == len(ids) == 5
    assert ids[0] == "msg_mine"


async def test_a_trigger_is_not_kept(make_creator: MakeCreator, store: Stores) -> None:
    creator = make_creator(ScriptedBackend.saying("a summary"))
    response = await ask(creator, input=[{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}])
    assert [item_type(item) for item in response.output] == ["compaction"]
    kept = await store.responses.input_items("t", response.id, Page())
    assert [item_type(item) for item in kept.items] == ["message"]
