"""Responses: read back as saved, and erased on deletion and expiry."""

import pytest
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.content import InputImage, InputText, ReasoningText, SummaryText
from antiphon.protocol.items import CustomToolCall, FunctionCallOutput, Item, Message, OpaqueItem, Reasoning
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import (
    IncompleteDetails,
    InputTokensDetails,
    OutputTokensDetails,
    ResponseError,
    Usage,
    new_response,
)
from antiphon.protocol.tools import CustomTool, FunctionTool, HostedTool
from antiphon.store.base import Conversation, StoredItem, StoredResponse
from antiphon.store.ports import Stores
from tests.store.conftest import Clock, CountRows
from tests.store.values import (
    ALL_ITEMS,
    answers,
    calls,
    encoded,
    events,
    history,
    message,
    names,
    queued,
    response,
    turn,
)

FUNCTION = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"n": {"const": 1.0}}},
}
CONVERSATION = Conversation(id="conv_1", created_at=1)
TOOLS = [FUNCTION, {"type": "custom", "name": "draw"}, {"type": "web_search", "filters": {"b": 1, "a": None}}]
ODD_TEXT = 'NUL \x00, line \u2028, "quotes", \\, 😀, \x7f'


async def test_a_response_reads_back_byte_for_byte(store: Stores) -> None:
    usage = Usage(3, InputTokensDetails(1), 4, OutputTokensDetails(2), 7)
    complete = replace(
        response("resp_1"),
        metadata={"b": "1", "a": ODD_TEXT},
        instructions=ODD_TEXT,
        temperature=0.1,
        usage=usage,
        completed_at=9,
        downgrades=["one", "two"],
        output=[
            Reasoning(
                id="rs_1", summary=[SummaryText("s")], content=[ReasoningText("r")], encrypted_content="e"
            ),
            answers(ODD_TEXT),
            calls("look"),
            CustomToolCall(
                id="ct_1", call_id="call_2", name="draw", input=ODD_TEXT, caller={"z": 1, "a": [1.50]}
            ),
        ],
    )
    await store.responses.save("t", StoredResponse(response=complete))
    assert encoded(await store.responses.response("t", "resp_1")) == encoded(complete)


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "name": "look"},
        {"type": "web_search"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "draw"}]},
    ],
)
async def test_every_tool_choice_reads_back_as_it_was(store: Stores, choice: object) -> None:
    request = create_from(model="m", input="x", tools=TOOLS, tool_choice=choice)
    created = replace(new_response(request, id="resp_1", created_at=1), status="completed")
    await store.responses.save("t", StoredResponse(response=created))
    read = await store.responses.response("t", "resp_1")
    assert encoded(read) == encoded(created)
    assert read.tool_choice == created.tool_choice


async def test_failed_and_incomplete_responses_read_back_with_their_reasons(store: Stores) -> None:
    failed = replace(response("resp_f", status="failed"), error=ResponseError("server_error", "broke"))
    cut = replace(
        response("resp_i", "half", status="incomplete"), incomplete_details=IncompleteDetails("steered")
    )
    for created in (failed, cut):
        await store.responses.save("t", StoredResponse(response=created))
        assert encoded(await store.responses.response("t", created.id)) == encoded(created)


async def test_items_of_every_kind_come_back_in_order(store: Stores) -> None:
    sent_items: tuple[Item, ...] = (
        Message(id="msg_a", role="developer", content=ODD_TEXT),
        Message(
            id="msg_b", role="user", content=[InputText(text="t"), InputImage(image_url="https://a/b.png")]
        ),
        calls("look"),
        FunctionCallOutput(id="fo_1", call_id="call_look", output=[InputText(text="o")]),
        OpaqueItem("program", {"type": "program", "id": "cm_1", "code": "1", "n": 1.0, "x": None}),
        OpaqueItem("acme:note", {"type": "acme:note", "id": "note_1"}),
    )
    await store.responses.save("t", StoredResponse(response=response("resp_1", "done"), input=sent_items))
    items = (await store.responses.continuation("t", "resp_1")).items
    assert list(items) == [*sent_items, answers("done")]
    assert await store.responses.item("t", "cm_1") == StoredItem(sent_items[4])
    assert list((await store.responses.input_items("t", "resp_1", ALL_ITEMS)).items) == list(sent_items)


async def test_a_continuation_brings_the_tools_that_were_declared_last(store: Stores) -> None:
    request = create_from(model="m", input="x", tools=TOOLS)
    created = replace(new_response(request, id="resp_1", created_at=1), status="completed")
    await store.responses.save("t", StoredResponse(response=created))
    await store.responses.save("t", turn("2", "1"))
    function, custom, hosted = (await store.responses.continuation("t", "resp_1")).tools
    assert isinstance(function, FunctionTool)
    assert function.name == "look"
    assert isinstance(custom, CustomTool)
    assert custom.name == "draw"
    assert isinstance(hosted, HostedTool)
    assert hosted.body == TOOLS[2]
    assert (await store.responses.continuation("t", "resp_2")).tools == ()


async def test_a_missing_response_is_not_found(store: Stores) -> None:
    with pytest.raises(NotFound) as plain:
        await store.responses.response("t", "resp_x")
    assert (plain.value.code, plain.value.param) == ("not_found", None)
    with pytest.raises(NotFound) as named:
        await store.responses.continuation("t", "resp_x")
    assert (named.value.code, named.value.param) == ("previous_response_not_found", "previous_response_id")
    with pytest.raises(NotFound):
        await store.responses.item("t", "msg_x")
    with pytest.raises(NotFound):
        await store.responses.input_items("t", "resp_x", ALL_ITEMS)
    with pytest.raises(NotFound):
        await store.responses.delete("t", "resp_x")


async def test_a_response_after_a_deleted_one_is_rejected(store: Stores) -> None:
    await store.responses.save("t", turn("1"))
    await store.responses.delete("t", "resp_1")
    with pytest.raises(NotFound, match="resp_1"):
        await store.responses.save("t", turn("2", "1"))
    with pytest.raises(NotFound):
        await store.responses.response("t", "resp_2")


async def test_saving_is_idempotent(store: Stores, count_rows: CountRows) -> None:
    await store.conversations.add_conversation("t", CONVERSATION, [])
    for stored in (turn("1"), turn("2", "1"), turn("3", "1"), turn("4", conversation="conv_1")):
        await store.responses.save("t", stored)
        await store.responses.save("t", stored)
    assert await count_rows("responses") == 4
    assert await count_rows("items") == 8
    assert await count_rows("chains") == 3, "the second attempt is rolled back"
    assert await history(store, "2") == ["1?", "1!", "2?", "2!"]


async def test_a_deleted_response_is_gone_with_its_items(store: Stores) -> None:
    await store.responses.save("t", turn("1"))
    await store.responses.delete("t", "resp_1")
    with pytest.raises(NotFound):
        await store.responses.response("t", "resp_1")
    for item in ("msg_1?", "msg_1!"):
        with pytest.raises(NotFound):
            await store.responses.item("t", item)


async def test_an_expired_response_is_not_found_but_its_descendants_go_on(
    store: Stores, clock: Clock
) -> None:
    await store.responses.save("t", turn("1", expires_at=1010))
    await store.responses.save("t", turn("2", "1"))
    clock.now = 1009.9
    assert await store.responses.response("t", "resp_1")
    assert await store.responses.item("t", "msg_1?")
    clock.now = 1010.0
    for call in (store.responses.response, store.responses.continuation, store.responses.delete):
        with pytest.raises(NotFound):
            await call("t", "resp_1")
    with pytest.raises(NotFound):
        await store.responses.input_items("t", "resp_1", ALL_ITEMS)
    with pytest.raises(NotFound):
        await store.responses.item("t", "msg_1?")
    assert await history(store, "2") == ["1?", "1!", "2?", "2!"]
    assert names(await store.responses.list_responses("t", limit=10)) == ["2"]


async def test_an_item_that_was_sent_again_is_found_in_its_newest_form(store: Stores) -> None:
    old, new = message("same"), Message(id="msg_same", role="user", content="changed")
    await store.responses.save("t", StoredResponse(response=response("resp_1", created_at=5), input=(old,)))
    await store.responses.save("t", StoredResponse(response=response("resp_2", created_at=6), input=(new,)))
    await store.responses.save("t", StoredResponse(response=response("resp_3", created_at=4), input=(old,)))
    assert await store.responses.item("t", "msg_same") == StoredItem(new)


async def test_responses_are_listed_newest_first(store: Stores) -> None:
    await store.conversations.add_conversation("t", CONVERSATION, [])
    await store.responses.save("t", turn("a", created_at=1))
    await store.responses.save("t", turn("c", created_at=2))
    await store.responses.save("t", turn("b", "a", created_at=2))
    await store.responses.save("t", turn("d", conversation="conv_1", created_at=3, expires_at=5000))
    await store.background.submit(
        "t",
        replace(queued("e"), response=replace(queued("e").response, created_at=4)),
        b"{}",
        events(0),
        "nobody",
    )
    listed = await store.responses.list_responses("t", limit=10)
    assert names(listed) == ["e", "d", "c", "b", "a"]
    assert listed[1] == replace(turn("d", conversation="conv_1", created_at=3, expires_at=5000), input=())
    assert encoded(listed[3].response) == encoded(turn("b", created_at=2).response)
    assert listed[3].parent == "resp_a"
    assert names(await store.responses.list_responses("t", limit=2, after="resp_d")) == ["c", "b"]
    assert names(await store.responses.list_responses("t", limit=2, conversation="conv_1")) == ["d"]
    assert await store.responses.list_responses("t", limit=2, after="resp_a") == []
    with pytest.raises(InvalidRequest) as refused:
        await store.responses.list_responses("t", limit=2, after="resp_x")
    assert refused.value.param == "after"
