"""Conversations and their items, over HTTP."""

from typing import Any

import pytest

from tests.server.stateful import JsonObject, ServerUnderTest, open_server
from tests.service.conftest import MakeCreator


async def conversation(server: ServerUnderTest, **body: Any) -> JsonObject:
    answer = await server.client.post("/v1/conversations", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def message(text: str) -> JsonObject:
    return {"role": "user", "content": text}


@pytest.mark.requirement(
    "PROTOCOL/conversations-create",
    "PROTOCOL/conversations-update",
    "PROTOCOL/conversations-delete",
)
async def test_a_conversation_is_created_read_changed_and_deleted(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        new_conversation = await conversation(server, metadata={"a": "b"})
        path = f"/v1/conversations/{new_conversation['id']}"
        assert new_conversation["id"].startswith("conv_")
        assert new_conversation == {
            "id": new_conversation["id"],
            "object": "conversation",
            "created_at": 1000,
            "metadata": {"a": "b"},
        }
        assert (await server.client.get(path)).json() == new_conversation
        changed = await server.client.post(path, json={"metadata": {"c": "d"}})
        assert changed.json() == {**new_conversation, "metadata": {"c": "d"}}
        assert (await server.client.post(path, json={"metadata": None})).json()["metadata"] == {}
        deleted = await server.client.delete(path)
        assert deleted.json() == {
            "id": new_conversation["id"],
            "object": "conversation.deleted",
            "deleted": True,
        }
        assert (await server.client.get(path)).status_code == 404


@pytest.mark.requirement("PROTOCOL/conversations-no-body")
async def test_a_conversation_needs_no_body(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.post("/v1/conversations")
    assert (answer.status_code, answer.json()["metadata"]) == (200, {})


@pytest.mark.requirement("PROTOCOL/conversations-items")
async def test_items_are_added_listed_read_and_taken_out(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        new_conversation = await conversation(server, items=[message("one")])
        path = f"/v1/conversations/{new_conversation['id']}/items"
        added = (await server.client.post(path, json={"items": [message("two"), message("three")]})).json()
        assert added["object"] == "list"
        assert added["has_more"] is False
        assert [item["content"][0]["text"] for item in added["data"]] == ["two", "three"]
        ids = [item["id"] for item in added["data"]]
        assert (added["first_id"], added["last_id"]) == (ids[0], ids[1])
        listed = (await server.client.get(path, params={"order": "asc"})).json()
        assert [item["content"][0]["text"] for item in listed["data"]] == ["one", "two", "three"]
        newest = (await server.client.get(path, params={"limit": 1})).json()
        assert (newest["data"], newest["has_more"]) == ([added["data"][1]], True)
        after = (await server.client.get(path, params={"after": ids[1], "limit": 1})).json()
        assert (after["data"], after["has_more"]) == ([added["data"][0]], True)
        assert (await server.client.get(f"{path}/{ids[0]}")).json() == added["data"][0]
        assert (await server.client.delete(f"{path}/{ids[0]}")).json() == new_conversation
        assert (await server.client.get(f"{path}/{ids[0]}")).status_code == 404
        assert len((await server.client.get(path)).json()["data"]) == 2


@pytest.mark.requirement("PROTOCOL/items-ids-kept")
async def test_an_item_keeps_its_id(make_creator: MakeCreator) -> None:
    item = {"type": "message", "id": "msg_mine", "role": "user", "content": "x"}
    async with open_server(make_creator) as server:
        new_conversation = await conversation(server, items=[item])
        answer = await server.client.get(f"/v1/conversations/{new_conversation['id']}/items/msg_mine")
    assert answer.status_code == 200


@pytest.mark.requirement("PROTOCOL/conversations-respond")
async def test_a_response_continues_a_conversation_and_is_stored_in_it(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        new_conversation = await conversation(server, items=[message("one")])
        await server.created(input="two", conversation=new_conversation["id"])
        path = f"/v1/conversations/{new_conversation['id']}/items"
        listed = (await server.client.get(path, params={"order": "asc"})).json()
    assert [item["content"][0]["text"] for item in listed["data"]] == ["one", "two", "Hello"]


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"items": "x"}, "items", "invalid_type"),
        ({"items": [{"type": "item_reference", "id": "msg_1"}]}, "items[0].type", "invalid_value"),
        (
            {"items": [message("x"), {"type": "compaction_trigger"}]},
            "items[1].type",
            "invalid_value",
        ),
        ({"items": [message("x")] * 1001}, "items", "array_above_max_length"),
        ({"items": [{"type": "strange"}]}, "items[0].type", "invalid_value"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata", "object_above_max_properties"),
        ({"metadata": {"k": 1}}, "metadata[...]", "invalid_type"),
    ],
)
@pytest.mark.requirement("PROTOCOL/conversations-invalid")
async def test_a_bad_conversation_is_rejected_by_name(
    make_creator: MakeCreator, body: JsonObject, param: str, code: str
) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.post("/v1/conversations", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.parametrize(
    ("tail", "body", "param"),
    [
        ("", {}, "metadata"),
        ("", {"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
        ("/items", {}, "items"),
        ("/items", {"items": []}, "items"),
    ],
)
@pytest.mark.requirement("PROTOCOL/conversations-invalid")
async def test_a_bad_change_is_rejected_by_name(
    make_creator: MakeCreator, tail: str, body: JsonObject, param: str
) -> None:
    async with open_server(make_creator) as server:
        new_conversation = await conversation(server)
        answer = await server.client.post(f"/v1/conversations/{new_conversation['id']}{tail}", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
