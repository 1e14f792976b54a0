"""The private side of an item: stored, shown to the model in the next turn, never to the client."""

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.errors import InvalidRequest
from antiphon.protocol.items import FunctionCallOutput
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response
from antiphon.protocol.tool_items import McpCall
from antiphon.service.responses.create import Creator
from antiphon.service.responses.session import ConnectionMemory
from antiphon.store.base import Conversation, Page
from antiphon.store.ports import Stores
from antiphon.tenant_budget import TenantBudget
from antiphon.turn.chunks import Finished, HostedItemDone, TextDelta
from antiphon.turn.sealing import SealKey
from tests.service.conftest import MakeCreator

CALLER = Caller.of("t")
FULL = "everything that the tool gave"
CALL = McpCall(status="completed", server_label="s", name="look", arguments="{}", output="in short")
DONE = [HostedItemDone(CALL, private={"output": FULL}), TextDelta("a"), Finished("stop")]
ANSWER = [TextDelta("b"), Finished("stop")]
SECRET = {"type": "mcp", "server_label": "s", "server_url": "https://a.example", "authorization": "x"}


async def create_response(creator: Creator, **params: object) -> Response:
    request = create_from(**{"model": "m", "input": "hi", **params})
    return await creator.start(request, CALLER).result()


def seen(backend: ScriptedBackend) -> list[object]:
    """The tool outputs that the model saw in the last turn."""
    return [item.output for item in backend.turns[-1].items if isinstance(item, FunctionCallOutput)]


async def test_the_model_sees_it_in_the_next_turn(make_creator: MakeCreator, store: Stores) -> None:
    backend = ScriptedBackend([DONE], [ANSWER])
    creator = make_creator(backend)
    first = await create_response(creator)
    second = await create_response(creator, previous_response_id=first.id)
    assert seen(backend) == [FULL]
    await create_response(creator, previous_response_id=second.id)
    assert seen(backend) == [FULL]

    shown = [first, await store.responses.response("t", first.id)]
    listed = await store.responses.input_items("t", second.id, Page())
    assert b"in short" in msgspec.json.encode([shown, listed])
    assert FULL.encode() not in msgspec.json.encode([shown, listed])


async def test_private_sides_survive_the_deletion_of_the_parent(
    make_creator: MakeCreator, store: Stores
) -> None:
    first_id = ""

    async def deleting(_turn: object):
        await store.responses.delete("t", first_id)
        yield ANSWER

    backend = ScriptedBackend([DONE], deleting, [ANSWER])
    creator = make_creator(backend)
    first_id = (await create_response(creator)).id
    second = await create_response(creator, previous_response_id=first_id)
    await create_response(creator, previous_response_id=second.id)
    assert seen(backend) == [FULL]


async def test_a_conversation_has_it(make_creator: MakeCreator, store: Stores) -> None:
    await store.conversations.add_conversation("t", Conversation(id="conv_1", created_at=1), [])
    backend = ScriptedBackend([DONE], [ANSWER])
    creator = make_creator(backend)
    await create_response(creator, conversation="conv_1")
    await create_response(creator, conversation="conv_1")
    assert seen(backend) == [FULL]


async def test_a_connection_remembers_it(make_creator: MakeCreator) -> None:
    backend = ScriptedBackend([DONE], [ANSWER])
    creator = make_creator(backend)
    session = ConnectionMemory(TenantBudget(2**20), "default").session()
    request = create_from(model="m", input="hi", store=False)
    first = await creator.start(request, CALLER, session).result()
    again = create_from(model="m", input="hi", store=False, previous_response_id=first.id)
    await creator.start(again, CALLER, session).result()
    assert seen(backend) == [FULL]


@pytest.mark.requirement("PROTOCOL/tools-secrets")
async def test_tools_with_unreadable_credentials_must_be_sent_again(
    make_creator: MakeCreator,
) -> None:
    first = await create_response(
        make_creator(ScriptedBackend([ANSWER]), ignored_tools=frozenset({"mcp"})), tools=[SECRET]
    )
    other = make_creator(
        ScriptedBackend([ANSWER]), ignored_tools=frozenset({"mcp"}), seal_key=SealKey(b"another", bytes)
    )
    with pytest.raises(InvalidRequest, match="Send 'tools' again") as caught:
        await create_response(other, previous_response_id=first.id)
    assert (caught.value.param, caught.value.code) == ("tools", "invalid_encrypted_content")
    assert (await create_response(other, previous_response_id=first.id, tools=[SECRET])).status == "completed"
